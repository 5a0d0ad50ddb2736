//! Connections: a limited number, with small buffers and a timeout.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Send buffer of a client in the kernel. Events beyond it are not even created.
const SEND_BUFFER: usize = 16 * 1024;
/// Backlog of unaccepted connections.
const BACKLOG: i32 = 64;
/// Timeout of an idle connection and of a client that does not read.
const PATIENCE: Duration = Duration::from_secs(20);
/// Wait after a failed accept, which happens when no descriptors are left.
const RETRY: Duration = Duration::from_millis(500);

/// Listens at an address. Accepted sockets inherit the small send buffer.
pub(super) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // A new monitor can then listen at once on the port of the last one.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
    sockopt::set_tcp_user_timeout(&socket, PATIENCE.as_millis() as u32)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Accepts a limited number of connections.
pub(super) struct Connections {
    listener: TcpListener,
    free: Arc<Semaphore>,
}

impl Connections {
    /// Accepts at most `most` concurrent connections.
    pub(super) fn new(listener: std::net::TcpListener, most: usize) -> io::Result<Connections> {
        Ok(Connections {
            listener: TcpListener::from_std(listener)?,
            free: Arc::new(Semaphore::new(most)),
        })
    }
}

impl axum::serve::Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let Ok(place) = Arc::clone(&self.free).acquire_owned().await else {
                // The semaphore is never closed.
                std::future::pending::<()>().await;
                continue;
            };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Otherwise small events would wait for the acknowledgement of the last.
                    let _ = stream.set_nodelay(true);
                    return (
                        Connection {
                            stream,
                            idle: Box::pin(tokio::time::sleep(PATIENCE)),
                            _place: place,
                        },
                        peer,
                    );
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection. It frees its permit when it ends, and times out when idle: otherwise a silent client could occupy all
/// permits and lock out the others.
pub(super) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn moved(&mut self) {
        self.idle.as_mut().reset(Instant::now() + PATIENCE);
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut connection.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            connection.moved();
        }
        if read.is_pending() && connection.idle.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        let written = Pin::new(&mut connection.stream).poll_write(cx, buf);
        if matches!(written, Poll::Ready(Ok(1..))) {
            connection.moved();
        }
        written
    }

    // Not only for speed: with vectored writes the server buffers at most 16 events for a client that does not read,
    // without them 400 KiB.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let connection = self.get_mut();
        let written = Pin::new(&mut connection.stream).poll_write_vectored(cx, bufs);
        if matches!(written, Poll::Ready(Ok(1..))) {
            connection.moved();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
