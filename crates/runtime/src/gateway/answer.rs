//! The answer to a request of an agent: from its provider, piece by piece, or from a recording, at once.

use std::collections::VecDeque;
use std::pin::pin;
use std::task::Poll;

use reqwest::Response;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use wire::model::recording::{self, End};

/// How many bytes of an answer are gathered, if they have all come.
const AT_ONCE: usize = 64 << 10;

/// A piece of an answer.
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// Nothing follows.
    pub(super) is_last: bool,
}

impl Chunk {
    /// Adds it to what is to be sent, as it is sent where the length of the whole was not said.
    pub(super) fn frame(&self, out: &mut Vec<u8>) {
        // One without bytes would be the end.
        if !self.bytes.is_empty() {
            out.extend_from_slice(format!("{:x}\r\n", self.bytes.len()).as_bytes());
            out.extend_from_slice(&self.bytes);
            out.extend_from_slice(b"\r\n");
        }
        if self.is_last {
            out.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// What a provider sends at a time; none at the end.
type Piece = reqwest::Result<Option<Vec<u8>>>;

async fn piece(response: &mut Response) -> Piece {
    Ok(response.chunk().await?.map(Vec::from))
}

/// An answer that has begun.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    rest: Rest,
}

/// Where the rest of it comes from.
enum Rest {
    Live {
        response: Response,
        /// What came with its head, if that has been asked for.
        first: Option<Piece>,
        /// Why it broke off, if that was found before it was asked for.
        broken: Option<String>,
    },
    Recorded {
        chunks: VecDeque<Vec<u8>>,
        /// Why it has no end.
        broken: Option<String>,
    },
}

impl Answer {
    /// From a provider, with what came together with its head.
    pub(super) async fn live(mut response: Response) -> Answer {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        tokio::task::yield_now().await;
        let first = at_once(piece(&mut response)).await;
        Answer { status, headers, rest: Rest::Live { response, first, broken: None } }
    }

    /// Whether something follows its head at once.
    pub(super) fn has_begun(&self) -> bool {
        match &self.rest {
            Rest::Live { first, .. } => first.is_some(),
            Rest::Recorded { .. } => true,
        }
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

    /// What comes next, with what has come by then. Not to be asked after the last.
    pub(super) async fn next_chunk(&mut self) -> Result<Chunk, String> {
        match &mut self.rest {
            Rest::Live { response, first, broken } => match broken.take() {
                Some(reason) => Err(reason),
                None => gather(response, first.take(), broken).await,
            },
            Rest::Recorded { chunks, broken } => match (chunks.pop_front(), broken.take()) {
                (Some(bytes), kept) => {
                    *broken = kept;
                    Ok(Chunk { bytes, is_last: false })
                }
                (None, Some(reason)) => Err(reason),
                (None, None) => Ok(Chunk { bytes: Vec::new(), is_last: true }),
            },
        }
    }
}

/// Waits for a piece and takes along what has come with it: a provider sends many small ones, and each costs the agent and
/// us as much as a large one.
async fn gather(
    response: &mut Response,
    first: Option<Piece>,
    broken: &mut Option<String>,
) -> Result<Chunk, String> {
    let mut bytes = Vec::new();
    let first = match first {
        Some(first) => first,
        None => piece(response).await,
    };
    let mut next = first.map(Some);
    loop {
        match next {
            Ok(Some(Some(piece))) => bytes.extend_from_slice(&piece),
            Ok(Some(None)) => return Ok(Chunk { bytes, is_last: true }),
            Ok(None) => return Ok(Chunk { bytes, is_last: false }),
            Err(error) if bytes.is_empty() => return Err(crate::http::reason(error)),
            Err(error) => {
                *broken = Some(crate::http::reason(error));
                return Ok(Chunk { bytes, is_last: false });
            }
        }
        if bytes.len() >= AT_ONCE {
            return Ok(Chunk { bytes, is_last: false });
        }
        // Whoever reads the connection hands over one piece at a time, and then waits for its turn.
        tokio::task::yield_now().await;
        next = at_once(piece(response)).await.transpose();
    }
}

/// What a future gives without waiting, if it gives anything.
async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
