//! A browser and a page in it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::wire::{BrowserError, Wire};

/// How often a page is asked whether what is waited for is so.
const LOOK: Duration = Duration::from_millis(50);

/// A headless Chromium. It ends when the last page of it is dropped.
#[derive(Clone)]
pub struct Browser(Arc<Mutex<Wire>>);

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browser").finish_non_exhaustive()
    }
}

/// A page that is open.
#[derive(Debug)]
pub struct Page {
    browser: Browser,
    session: String,
}

impl Browser {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// When there is none, or it does not answer.
    pub fn start() -> Result<Self, BrowserError> {
        let mut wire = Wire::open()?;
        wire.ask(None, "Browser.getVersion", json!({}))?;
        Ok(Self(Arc::new(Mutex::new(wire))))
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a page in a window of so many points. It may not have loaded yet when this returns.
    ///
    /// # Errors
    ///
    /// When the browser does not do so.
    pub fn open(&self, address: &str, (width, height): (u32, u32)) -> Result<Page, BrowserError> {
        let target = self
            .wire()
            .ask(None, "Target.createTarget", json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.wire().ask(None, "Target.attachToTarget", attach)?;
        let page = Page {
            browser: self.clone(),
            session: attached["sessionId"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        };
        page.ask(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}),
        )?;
        page.ask("Page.navigate", json!({"url": address}))?;
        Ok(page)
    }
}

impl Page {
    fn ask(&self, method: &str, parameters: Value) -> Result<Value, BrowserError> {
        self.browser
            .wire()
            .ask(Some(&self.session), method, parameters)
    }

    /// What an expression of JavaScript comes to on the page; what a promise does, if it is one.
    ///
    /// # Errors
    ///
    /// When it throws, or the browser does not answer.
    pub fn evaluate(&self, expression: &str) -> Result<Value, BrowserError> {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", parameters)?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            let described = thrown["exception"]["description"].as_str();
            let message = described.or(thrown["text"].as_str()).unwrap_or_default();
            return Err(BrowserError::Refused {
                method: expression.to_owned(),
                message: message.to_owned(),
            });
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true on the page, as long as the bound allows, which guards against hanging. An expression that throws is not
    /// true yet. Whether it is.
    ///
    /// # Errors
    ///
    /// When the browser does not answer.
    pub fn wait_until(&self, expression: &str, bound: Duration) -> Result<bool, BrowserError> {
        let until = Instant::now() + bound;
        loop {
            match self.evaluate(expression) {
                Ok(Value::Bool(true)) => return Ok(true),
                Ok(_) | Err(BrowserError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            thread::sleep(LOOK);
        }
    }

    /// Has the page take the system for one that prefers dark colours, or light ones.
    ///
    /// # Errors
    ///
    /// When the browser does not do so.
    pub fn prefer_dark(&self, is_dark: bool) -> Result<(), BrowserError> {
        let value = if is_dark { "dark" } else { "light" };
        let feature = json!({"name": "prefers-color-scheme", "value": value});
        self.ask("Emulation.setEmulatedMedia", json!({"features": [feature]}))
            .map(drop)
    }

    /// What is to be seen of it now, as PNG.
    ///
    /// # Errors
    ///
    /// When the browser does not do so.
    pub fn screenshot(&self) -> Result<Vec<u8>, BrowserError> {
        let method = "Page.captureScreenshot";
        let shot = self.ask(method, json!({"format": "png"}))?;
        let decoded = STANDARD.decode(shot["data"].as_str().unwrap_or_default());
        decoded.map_err(|error| BrowserError::Refused {
            method: method.to_owned(),
            message: error.to_string(),
        })
    }
}
