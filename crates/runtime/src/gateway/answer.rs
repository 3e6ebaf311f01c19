//! The answer to a request of an agent: from its provider, piece by piece, or from a recording, at once.

use std::collections::VecDeque;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use wire::model::recording::{self, End};

/// An answer that has begun.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    rest: Rest,
}

/// Where the rest of it comes from.
enum Rest {
    Live(reqwest::Response),
    Recorded {
        chunks: VecDeque<Vec<u8>>,
        /// Why it has no end.
        broken: Option<String>,
    },
}

impl Answer {
    /// From a provider.
    pub(super) fn live(response: reqwest::Response) -> Answer {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, rest: Rest::Live(response) }
    }

    /// From a recording; the error is that no answer had begun.
    pub(super) fn recorded(response: &recording::Response) -> Result<Answer, String> {
        let broken = match &response.end {
            End::Whole => None,
            End::Unreachable { reason } => return Err(reason.clone()),
            End::Broken { reason } => Some(reason.clone()),
            End::Silent { millis } => Some(format!("nothing came for {} s", millis / 1000)),
            End::TooLong { millis } => Some(format!("it was not over after {} s", millis / 1000)),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &response.headers {
            // A file can be written by anybody: what is no header is left out.
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str()))
            {
                headers.append(name, value);
            }
        }
        let chunks = response.chunks.iter().filter_map(|chunk| chunk.data.bytes()).collect();
        let status = response.status.unwrap_or(200);
        Ok(Answer { status, headers, rest: Rest::Recorded { chunks, broken } })
    }

    /// What comes next; nothing at its end.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, String> {
        match &mut self.rest {
            Rest::Live(response) => {
                let chunk = response.chunk().await.map_err(crate::http::reason)?;
                Ok(chunk.map(|chunk| chunk.to_vec()))
            }
            Rest::Recorded { chunks, broken } => match (chunks.pop_front(), broken.take()) {
                (Some(chunk), kept) => {
                    *broken = kept;
                    Ok(Some(chunk))
                }
                (None, Some(reason)) => Err(reason),
                (None, None) => Ok(None),
            },
        }
    }
}
