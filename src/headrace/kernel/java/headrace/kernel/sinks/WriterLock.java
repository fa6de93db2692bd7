package headrace.kernel.sinks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Locks of checkpoints that are as long as this process, the one that writes.
 *
 * <p>The process that has started it holds a lock too and may be killed alone; as long as this one
 * runs, nobody else may write to the same checkpoint. The system releases the locks when the
 * process ends, however it ends.
 */
public final class WriterLock {
  private static final ConcurrentHashMap<String, FileChannel> HELD = new ConcurrentHashMap<>();

  private WriterLock() {}

  /** Hold the lock on a file, which then names this process; whether it is held. */
  public static synchronized boolean hold(String file) throws IOException {
    if (HELD.containsKey(file)) return false;
    FileChannel channel =
        FileChannel.open(Path.of(file), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    try {
      if (channel.tryLock() == null) {
        channel.close();
        return false;
      }
      channel.truncate(0);
      channel.write(
          ByteBuffer.wrap(
              Long.toString(ProcessHandle.current().pid()).getBytes(StandardCharsets.US_ASCII)));
    } catch (OverlappingFileLockException | IOException e) {
      channel.close();
      if (e instanceof IOException failed) throw failed;
      return false;
    }
    HELD.put(file, channel);
    return true;
  }

  /** Let go of it, when what wrote has ended. */
  public static synchronized void release(String file) throws IOException {
    FileChannel channel = HELD.remove(file);
    if (channel != null) channel.close();
  }
}
