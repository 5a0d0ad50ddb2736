//! Connections: a limited number, with small buffers, a deadline until they show the token, and a timeout.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::places::{Place, Places};

/// Send buffer of a client in the kernel. Events beyond it are not even created.
const SEND_BUFFER: usize = 16 * 1024;
/// Backlog of unaccepted connections.
const BACKLOG: i32 = 64;
/// Timeout of an idle connection and of a client that does not read.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time from the start of a connection until its client has shown the token: for the whole head of a request, however
/// its bytes arrive.
const INTRODUCTION: Duration = Duration::from_secs(5);
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
    places: Places,
}

impl Connections {
    pub(super) fn new(listener: std::net::TcpListener) -> io::Result<Connections> {
        Ok(Connections {
            listener: TcpListener::from_std(listener)?,
            places: Places::new(),
        })
    }
}

impl axum::serve::Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Otherwise small events would wait for the acknowledgement of the last.
                    let _ = stream.set_nodelay(true);
                    let (place, evicted) = self.places.admit();
                    let connection = Connection {
                        stream,
                        idle: Box::pin(tokio::time::sleep(PATIENCE)),
                        introduction: Box::pin(tokio::time::sleep(INTRODUCTION)),
                        place,
                        evicted,
                    };
                    // Evicted connections close before the next is accepted.
                    tokio::task::yield_now().await;
                    return (connection, peer);
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection. It frees its place when it ends. It ends when idle, and without the token at its deadline or its
/// eviction: otherwise silent or slow clients could lock out the others.
pub(super) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    introduction: Pin<Box<Sleep>>,
    place: Arc<Place>,
    evicted: oneshot::Receiver<()>,
}

/// The connection of a request, for its handlers.
#[derive(Clone)]
pub(super) struct Caller(pub(super) Arc<Place>);

impl Connected<IncomingStream<'_, Connections>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Self {
        Caller(Arc::clone(&stream.io().place))
    }
}

impl Connection {
    fn moved(&mut self) {
        self.idle.as_mut().reset(Instant::now() + PATIENCE);
    }

    /// Fails without the token after the deadline or the eviction.
    fn poll_place(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let over = !self.place.is_trusted()
            && (self.introduction.as_mut().poll(cx).is_ready()
                || Pin::new(&mut self.evicted).poll(cx).is_ready());
        match over {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        connection.poll_place(cx)?;
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
        connection.poll_place(cx)?;
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
        connection.poll_place(cx)?;
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
