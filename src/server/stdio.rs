//! The streams of the editor: its frames in, ours out.
//!
//! Invariant: reading never waits for writing. What we send goes into an unbounded queue with a task
//! of its own, so an editor that does not read its end never stops the reading of its keystrokes;
//! who sends looks at [`Outbox::queued_bytes`] and decides how much is too much.

use std::{
    io, mem,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Notify,
    task::{JoinHandle, yield_now},
};

use super::frames::{Frame, FrameReader, encode_into};

/// The capacity of a pipe on Linux.
const READ_BYTES: usize = 64 * 1024;
/// The largest buffer kept for the next batch.
const MAX_IDLE_BYTES: usize = 1024 * 1024;

type Reader = Box<dyn AsyncRead + Unpin + Send>;
type Writer = Box<dyn AsyncWrite + Unpin + Send>;

/// Opens standard input, without a thread in between if it is a pipe or a socket.
///
/// Must be called inside a runtime with IO. In the fallback (file, terminal, not Unix) a read may
/// be stuck in a thread when the runtime shuts down: end the process by `exit`.
pub fn stdin() -> impl AsyncRead + Unpin + Send {
    #[cfg(unix)]
    if let Ok(reader) = unix::reader(io::stdin()) {
        return reader;
    }
    Box::new(tokio::io::stdin()) as Reader
}

/// Opens standard output, without a thread in between if it is a pipe or a socket.
///
/// Must be called inside a runtime with IO. Nothing else may print: the descriptor does not block,
/// nor does a standard error that is the same open file.
pub fn stdout() -> impl AsyncWrite + Unpin + Send {
    #[cfg(unix)]
    if let Ok(writer) = unix::writer(io::stdout()) {
        return writer;
    }
    Box::new(tokio::io::stdout()) as Writer
}

/// Reads frames until the input ends or `on_frame` breaks.
///
/// Never waits but for input; other tasks of the same thread run between large reads.
pub async fn read_loop(
    mut input: impl AsyncRead + Unpin,
    max_bytes: usize,
    mut on_frame: impl FnMut(Frame) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut frames = FrameReader::new(max_bytes);
    let mut piece = vec![0; READ_BYTES];
    loop {
        let n_read = input.read(&mut piece).await?;
        if n_read == 0 {
            if let Some(frame) = frames.finish() {
                let _ = on_frame(frame);
            }
            return Ok(());
        }
        frames.push(&piece[..n_read]);
        if frames.try_for_each(&mut on_frame).is_break() {
            return Ok(());
        }
        if n_read > READ_BYTES / 2 {
            // A flood: let the writer have its turn.
            yield_now().await;
        }
    }
}

/// Starts the task that writes to `output` what the outbox queues.
///
/// The task ends when the outbox is closed and everything is written, or with the first error;
/// after that, what is sent is dropped.
pub fn spawn_writer(
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> (Outbox, JoinHandle<io::Result<()>>) {
    let queue = Arc::new(Queue::default());
    let outbox = Outbox {
        queue: Arc::clone(&queue),
    };
    let task = tokio::spawn(async move {
        let result = write_loop(output, &queue).await;
        *queue.lock() = Pending {
            closed: true,
            ..Pending::default()
        };
        result
    });
    (outbox, task)
}

/// The sending end of the writer's queue; dropping it closes it.
#[derive(Debug)]
pub struct Outbox {
    queue: Arc<Queue>,
}

impl Outbox {
    /// Frames a body and queues it; never waits.
    pub fn send(&self, body: &[u8]) {
        let mut pending = self.queue.lock();
        if pending.closed {
            return;
        }
        encode_into(&mut pending.bytes, body);
        self.queue.wake.notify_one();
    }

    /// How many bytes are queued and not yet taken by the output.
    pub fn queued_bytes(&self) -> usize {
        let pending = self.queue.lock();
        pending.bytes.len() + pending.n_in_flight
    }

    /// Takes no more; await the writer's task for what is queued to be written.
    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.queue.wake.notify_one();
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.close();
    }
}

#[derive(Debug, Default)]
struct Queue {
    pending: Mutex<Pending>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    /// Whole frames, one after the other: the next batch.
    bytes: Vec<u8>,
    /// How much of the batch before is not yet written.
    n_in_flight: usize,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_loop(mut output: impl AsyncWrite + Unpin, queue: &Queue) -> io::Result<()> {
    let mut batch = Vec::new();
    loop {
        let closed = {
            let mut pending = queue.lock();
            mem::swap(&mut batch, &mut pending.bytes);
            pending.n_in_flight = batch.len();
            pending.closed
        };
        if batch.is_empty() {
            if closed {
                return output.shutdown().await;
            }
            queue.wake.notified().await;
            continue;
        }
        let mut rest = &batch[..];
        while !rest.is_empty() {
            let n_written = output.write(rest).await?;
            if n_written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[n_written..];
            queue.lock().n_in_flight = rest.len();
        }
        output.flush().await?;
        batch.clear();
        batch.shrink_to(MAX_IDLE_BYTES);
    }
}

#[cfg(unix)]
mod unix {
    //! Descriptors that the runtime can wait for. Editors use both kinds: Node.js spawns with
    //! sockets. Not blocking is a property of the open file; an editor that spawned us has the other
    //! end, so nobody else is affected.

    use std::{
        io,
        os::fd::{AsFd, OwnedFd},
    };

    use rustix::fs::{FileType, fstat};
    use tokio::net::{UnixStream, unix::pipe};

    use super::{Reader, Writer};

    pub(super) fn reader(fd: impl AsFd) -> io::Result<Reader> {
        let fd = fd.as_fd().try_clone_to_owned()?;
        Ok(match file_type(&fd)? {
            FileType::Fifo => Box::new(pipe::Receiver::from_owned_fd(fd)?),
            FileType::Socket => Box::new(socket(fd)?),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    pub(super) fn writer(fd: impl AsFd) -> io::Result<Writer> {
        let fd = fd.as_fd().try_clone_to_owned()?;
        Ok(match file_type(&fd)? {
            FileType::Fifo => Box::new(pipe::Sender::from_owned_fd(fd)?),
            FileType::Socket => Box::new(socket(fd)?),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        })
    }

    fn file_type(fd: &OwnedFd) -> io::Result<FileType> {
        Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
    }

    fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
        let socket = std::os::unix::net::UnixStream::from(fd);
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::Pin, task::Context, task::Poll, time::Duration};

    use tokio::io::{duplex, split};

    use super::*;
    use crate::server::frames::encode;

    const BODY: &[u8] = br#"{"a":1}"#;

    /// Reads everything that arrives in `pieces` and shows the frames.
    async fn read(pieces: &[&[u8]], n_wanted: usize) -> Vec<Frame> {
        let (mut editor, input) = duplex(16);
        let mut frames = Vec::new();
        let reading = read_loop(input, 100, |frame| {
            frames.push(frame);
            if frames.len() == n_wanted {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let writing = async move {
            for piece in pieces {
                if editor.write_all(piece).await.is_err() {
                    break;
                }
            }
        };
        let (result, ()) = tokio::join!(reading, writing);
        result.expect("a duplex stream does not fail");
        frames
    }

    #[tokio::test]
    async fn frames_are_read_until_the_input_ends() {
        let frame = encode(BODY);
        let frames = read(&[&frame, &frame[..9], &frame[9..], b"Content"], usize::MAX).await;
        assert_eq!(
            frames[..2],
            [Frame::Message(BODY.into()), Frame::Message(BODY.into())]
        );
        assert!(matches!(frames[2..], [Frame::Bad { .. }]));
    }

    #[tokio::test]
    async fn reading_stops_when_it_is_told_to() {
        let frame = encode(BODY).repeat(9);
        assert_eq!(read(&[&frame, &frame], 2).await.len(), 2);
    }

    /// An output that counts the writes and takes at most 1 KiB in each.
    #[derive(Default)]
    struct Output {
        written: Arc<Mutex<Vec<usize>>>,
    }

    impl AsyncWrite for Output {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let n_bytes = bytes.len().min(1024);
            self.written.lock().expect("no test panicked").push(n_bytes);
            Poll::Ready(Ok(n_bytes))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_is_queued_together_is_written_together() {
        let output = Output::default();
        let written = Arc::clone(&output.written);
        let (outbox, writer) = spawn_writer(output);
        let n_frame = encode(BODY).len();
        for n_sent in 1..=60 {
            outbox.send(BODY);
            assert_eq!(outbox.queued_bytes(), n_sent * n_frame);
        }
        outbox.close();
        outbox.send(BODY);
        writer
            .await
            .expect("the task ends")
            .expect("the output takes everything");
        assert_eq!(
            *written.lock().expect("no test panicked"),
            [1024, 60 * n_frame - 1024]
        );
        assert_eq!(outbox.queued_bytes(), 0);
    }

    #[tokio::test]
    async fn an_editor_that_does_not_read_is_still_read() {
        const N_MESSAGES: usize = 10_000;
        let (editor, ours) = duplex(64);
        let (mut editor_input, mut editor_output) = split(editor);
        let (input, output) = split(ours);
        let (outbox, writer) = spawn_writer(output);
        tokio::spawn(async move {
            for _ in 0..N_MESSAGES {
                editor_output
                    .write_all(&encode(BODY))
                    .await
                    .expect("we read");
            }
            editor_output
                .write_all(b"Content-Length: 0\n\n")
                .await
                .expect("we read");
        });

        let mut n_read = 0;
        read_loop(input, 100, |frame| match frame {
            Frame::Message(body) => {
                outbox.send(&body);
                n_read += 1;
                ControlFlow::Continue(())
            }
            Frame::LostChange => ControlFlow::Continue(()),
            Frame::Bad { .. } => ControlFlow::Break(()),
        })
        .await
        .expect("a duplex stream does not fail");
        assert_eq!(n_read, N_MESSAGES);
        let n_queued = outbox.queued_bytes();
        assert!(
            n_queued >= N_MESSAGES * encode(BODY).len() - 64,
            "{n_queued}"
        );

        drop(outbox);
        let mut received = Vec::new();
        let n_expected = N_MESSAGES * encode(BODY).len();
        while received.len() < n_expected {
            let n_bytes = editor_input
                .read_buf(&mut received)
                .await
                .expect("we write");
            assert_ne!(n_bytes, 0);
        }
        writer
            .await
            .expect("the task ends")
            .expect("the output takes everything");
        assert_eq!(received, encode(BODY).repeat(N_MESSAGES));
    }

    #[tokio::test]
    async fn an_output_that_is_gone_ends_the_writer() {
        let (editor, ours) = duplex(64);
        drop(editor);
        let (outbox, writer) = spawn_writer(ours);
        outbox.send(BODY);
        assert!(writer.await.expect("the task ends").is_err());
        outbox.send(BODY);
        assert_eq!(outbox.queued_bytes(), 0);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn pipes_and_sockets_do_not_block() {
        let (pipe_reader, pipe_writer) = io::pipe().expect("a pipe can be made");
        let (socket, other) = std::os::unix::net::UnixStream::pair().expect("a pair can be made");
        let streams = [
            (unix::reader(pipe_reader), unix::writer(pipe_writer)),
            (unix::reader(socket), unix::writer(other)),
        ];
        for (reader, writer) in streams {
            let (mut reader, writer) = (reader.expect("readable"), writer.expect("writable"));
            let mut byte = [0];
            let read = tokio::time::timeout(Duration::from_millis(1), reader.read(&mut byte));
            assert!(read.await.is_err(), "nothing was written yet");

            let (outbox, task) = spawn_writer(writer);
            outbox.send(&vec![b' '; 1_000_000]);
            outbox.close();
            let mut n_bytes = 0;
            let read = read_loop(reader, 2_000_000, |_| {
                n_bytes += 1;
                ControlFlow::Continue(())
            });
            let (read, written) = tokio::join!(read, task);
            read.expect("readable");
            written.expect("the task ends").expect("writable");
            assert_eq!(n_bytes, 1);
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn files_are_left_to_the_fallback() {
        let file = std::fs::File::open("/dev/null").expect("it can be opened");
        assert!(unix::reader(&file).is_err());
        assert!(unix::writer(&file).is_err());
    }
}
