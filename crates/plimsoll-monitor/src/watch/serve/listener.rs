//! Connections: few, with small buffers, and none that takes nothing for long.

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

/// Bytes that the kernel keeps for a client that does not read. The rest of what it misses is not made at all.
const SEND_BUFFER: usize = 16 * 1024;
/// Connections that the kernel keeps for us to accept.
const BACKLOG: i32 = 64;
/// Time after which a client that takes nothing, or one that neither says nor is told anything, is dropped.
const PATIENCE: Duration = Duration::from_secs(20);
/// Wait after a connection could not be accepted, which is so when there are no more descriptors.
const RETRY: Duration = Duration::from_millis(500);

/// Listens at an address. What it accepts has a small send buffer, which sockets inherit.
pub(super) fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // So that a monitor can be started again at once on the port of the one before.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
    sockopt::set_tcp_user_timeout(&socket, PATIENCE.as_millis() as u32)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections up to a number of them.
pub(super) struct Connections {
    listener: TcpListener,
    free: Arc<Semaphore>,
}

impl Connections {
    /// Accepts at most `most` connections at the same time.
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
                // Nobody closes the semaphore.
                std::future::pending::<()>().await;
                continue;
            };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Without it, small events would wait for the acknowledgement of the last.
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

/// A connection, which gives its place back when it ends. One on which nothing moves ends by itself: else somebody who
/// opens all there are, and says nothing, would keep everybody else out.
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

    // Gathered writes are more than speed: with them the server keeps at most 16 events for a client that does not
    // read, and without them 400 KiB of them.
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
