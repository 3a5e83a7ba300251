//! From a request to its answer.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};

use crate::look::{Lookout, Unseen, View};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What every answer says: nothing is kept, nothing is loaded from elsewhere, no script but the page's own is run.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

type Answer = Response<Full<Bytes>>;

/// Answers a request. `is_local` says that the server listens on this machine alone.
pub(crate) async fn answer<B>(
    request: &Request<B>,
    lookout: &Arc<Lookout>,
    is_local: bool,
) -> Answer {
    if is_local && !names_this_machine(request.headers()) {
        // A page of somewhere else whose name was made to mean this machine (DNS rebinding) would read what it should not.
        return text(
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers to localhost and to addresses",
        );
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "there is GET and HEAD");
        let allowed = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(header::ALLOW, allowed);
        return refused;
    }
    let (view, kind) = match request.uri().path() {
        "/" => return fixed(HTML, include_str!("page/index.html")),
        "/page.css" => return fixed(CSS, include_str!("page/page.css")),
        "/page.js" => return fixed(SCRIPT, include_str!("page/page.js")),
        "/status" => (View::Report, JSON),
        "/holds" => (View::Holds, JSON),
        "/metrics" => (View::Metrics, METRICS),
        _ => {
            return text(
                StatusCode::NOT_FOUND,
                "there is /, /status, /holds and /metrics",
            );
        }
    };
    match lookout.look(view).await {
        Ok(body) => respond(StatusCode::OK, kind, body),
        Err(Unseen::Over) => text(StatusCode::SERVICE_UNAVAILABLE, "the application is over"),
        Err(Unseen::Busy) => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "the application is at work and has not answered within 3 s",
        ),
        Err(Unseen::NoRecorder) => text(
            StatusCode::NOT_FOUND,
            "the server was given no recorder of metrics",
        ),
        Err(Unseen::Failed) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the application could not say what it is doing",
        ),
    }
}

fn fixed(kind: &'static str, body: &'static str) -> Answer {
    respond(StatusCode::OK, kind, Bytes::from_static(body.as_bytes()))
}

fn text(status: StatusCode, line: &str) -> Answer {
    respond(status, TEXT, format!("{line}\n").into())
}

fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a request asks for this machine by a name that nobody else can give away: `localhost`, or an address.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let authority = host.to_str().ok().and_then(|host| host.parse().ok());
    authority.is_some_and(|authority: Authority| {
        let host = authority.host();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        host.eq_ignore_ascii_case("localhost") || bare.unwrap_or(host).parse::<IpAddr>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_can_give_away_are_this_machine() {
        let names = |hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
            }
            names_this_machine(&headers)
        };
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:9090",
            "[::1]:9090",
            "10.1.2.3",
        ] {
            assert!(names(&[host]), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1.nip.example",
        ] {
            assert!(!names(&[host]), "{host}");
        }
        assert!(!names(&[]));
        assert!(!names(&["localhost", "evil.example"]));
    }
}
