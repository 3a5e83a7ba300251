//! Runs a Parsley application inside one process.
