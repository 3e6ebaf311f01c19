//! A server of raw sockets: it reads one request after the other and lets the test write whatever it likes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What was asked.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Method, path and headers, as they came.
    pub(super) head: String,
    /// The body.
    pub(super) body: String,
}

impl Request {
    /// Whether a header line is there.
    pub(super) fn has(&self, line: &str) -> bool {
        self.head.lines().any(|known| known.eq_ignore_ascii_case(line))
    }
}

/// Ends when it is dropped; connections end with their clients.
pub(super) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Server {
    /// Answers each request by `answer`, which gets the request's number; the connection is closed once it
    /// says false.
    pub(super) fn new(
        answer: impl Fn(usize, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
            connections: Arc::default(),
            over: Arc::default(),
        };
        let (requests, connections, over) =
            (server.requests.clone(), server.connections.clone(), server.over.clone());
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                connections.fetch_add(1, Ordering::SeqCst);
                let (answer, requests) = (answer.clone(), requests.clone());
                std::thread::spawn(move || attend(stream.unwrap(), &requests, &*answer));
            }
        });
        server
    }

    /// Answers each request with these bytes and closes.
    pub(super) fn saying(bytes: impl Into<Vec<u8>>) -> Server {
        let bytes = bytes.into();
        Server::new(move |_, stream| {
            let _ = stream.write_all(&bytes);
            false
        })
    }

    /// Answers each request with these bytes, which must have an end of their own, and stays. For more than one
    /// call: a client may send the next one before it sees that a connection was closed.
    pub(super) fn repeating(bytes: impl Into<Vec<u8>>) -> Server {
        let bytes = bytes.into();
        Server::new(move |_, stream| stream.write_all(&bytes).is_ok())
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

fn attend(
    mut stream: TcpStream,
    requests: &Mutex<Vec<Request>>,
    answer: &(dyn Fn(usize, &mut TcpStream) -> bool + Send + Sync),
) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read(&mut reader) {
        let number = {
            let mut requests = requests.lock().unwrap();
            requests.push(request);
            requests.len() - 1
        };
        if !answer(number, &mut stream) {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { head, body: String::from_utf8(body).unwrap() })
}

/// Waits until the client has gone away.
pub(super) fn hold(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0; 1]);
}

/// The head of a stream of chunks.
pub(super) const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// The end of a stream of chunks.
pub(super) const END: &str = "0\r\n\r\n";

/// One chunk.
pub(super) fn chunk(text: impl AsRef<[u8]>) -> Vec<u8> {
    let text = text.as_ref();
    [format!("{:x}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

/// A whole stream in one chunk.
pub(super) fn whole(text: &str) -> Vec<u8> {
    [HEAD.as_bytes(), &chunk(text), END.as_bytes()].concat()
}

/// An answer with a length.
pub(super) fn plain(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}
