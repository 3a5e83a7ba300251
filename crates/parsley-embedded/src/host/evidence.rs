//! High watermarks between the asking and the handing in (`docs/protocol.md`, Watermark evidence).

use std::collections::BTreeMap;

use parsley_core::{Channel, Mark, Offset};

/// High watermarks that were read for a task, and the mark that they speak for. From
/// [`Stepper::ask_watermarks`](crate::Stepper::ask_watermarks), for [`Stepper::answer_watermarks`](crate::Stepper::answer_watermarks).
#[derive(Clone, Debug)]
pub struct WatermarkAnswer {
    pub(crate) mark: Mark,
    pub(crate) watermarks: BTreeMap<Channel, Offset>,
}

impl WatermarkAnswer {
    /// The high watermarks, of the channels where they may help.
    pub fn watermarks(&self) -> &BTreeMap<Channel, Offset> {
        &self.watermarks
    }
}
