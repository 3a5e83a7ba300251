//! The marks of events.

use crate::trace::Kind;

/// How an event is marked on its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Sent,
    Received,
    Delivered,
    DeliveredLate,
    Held,
    Dropped,
    Advanced,
    Committed,
    Aborted,
    Started,
    Crashed,
    Refused,
    Note,
}

impl Mark {
    /// All marks, in the order of the legend.
    pub(crate) const ALL: [Self; 13] = [
        Self::Sent,
        Self::Received,
        Self::Delivered,
        Self::DeliveredLate,
        Self::Held,
        Self::Dropped,
        Self::Advanced,
        Self::Committed,
        Self::Aborted,
        Self::Started,
        Self::Crashed,
        Self::Refused,
        Self::Note,
    ];

    /// The mark of an event.
    pub(crate) fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Started { .. } => Self::Started,
            Kind::Crashed { .. } => Self::Crashed,
            Kind::Refused { .. } => Self::Refused,
            Kind::Sent { .. } => Self::Sent,
            Kind::Committed => Self::Committed,
            Kind::Aborted => Self::Aborted,
            Kind::Received { .. } => Self::Received,
            Kind::Dropped { .. } => Self::Dropped,
            Kind::Held { .. } => Self::Held,
            Kind::Delivered { was_held, .. } if *was_held => Self::DeliveredLate,
            Kind::Delivered { .. } => Self::Delivered,
            Kind::Advanced { .. } => Self::Advanced,
            Kind::Note(_) => Self::Note,
        }
    }

    /// The class of the mark and of its row's text.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Crashed => "crashed",
            Self::Refused => "refused",
            Self::Sent => "sent",
            Self::Committed => "committed",
            Self::Aborted => "abort",
            Self::Received => "received",
            Self::Dropped => "dropped",
            Self::Held => "held",
            Self::Delivered => "delivered",
            Self::DeliveredLate => "delivered late",
            Self::Advanced => "advanced",
            Self::Note => "note",
        }
    }

    /// What the legend says of it.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Crashed => "crashed",
            Self::Refused => "refused",
            Self::Sent => "sent",
            Self::Committed => "committed",
            Self::Aborted => "aborted",
            Self::Received => "received",
            Self::Dropped => "dropped, fed before",
            Self::Held => "found blocked",
            Self::Delivered => "delivered",
            Self::DeliveredLate => "delivered after a hold",
            Self::Advanced => "position",
            Self::Note => "note",
        }
    }

    /// Its shape in SVG, around the origin.
    pub(crate) fn shape(self) -> &'static str {
        match self {
            Self::Started => "<path d=\"M-6 -3.5H6L0 5Z\"/>",
            Self::Crashed => "<path d=\"M-5 -5L5 5M5 -5L-5 5\"/>",
            Self::Refused => "<path d=\"M-2.5 -6H2.5L6 -2.5V2.5L2.5 6H-2.5L-6 2.5V-2.5ZM-3 0H3\"/>",
            Self::Sent => "<path d=\"M0 -5.5L5.5 0L0 5.5L-5.5 0Z\"/>",
            Self::Committed => "<path d=\"M-5 0H5\"/>",
            Self::Aborted => "<path d=\"M-5 0H-2M2 0H5M-2 -2L2 2M2 -2L-2 2\"/>",
            Self::Received => "<circle r=\"3\"/>",
            Self::Dropped => "<path d=\"M-3 -3L3 3M3 -3L-3 3\"/>",
            Self::Held => "<path d=\"M-2.5 -4V4M2.5 -4V4\"/>",
            Self::Delivered => "<circle r=\"4.5\"/>",
            Self::DeliveredLate => "<circle class=\"ring\" r=\"7\"/><circle r=\"4.5\"/>",
            Self::Advanced => "<path d=\"M-4 -2L0 2L4 -2\"/>",
            Self::Note => "<rect x=\"-2.5\" y=\"-2.5\" width=\"5\" height=\"5\"/>",
        }
    }
}
