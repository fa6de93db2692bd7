package headrace.kernel.run;

/**
 * Ends this process as soon as the Python process that started it is gone, however that ended.
 *
 * <p>Spark's own way is to notice the end of standard input and to shut down in order, during which
 * queries go on writing for up to half a minute; and a child that Python has forked may keep the
 * pipe open for as long as it lives. The system gives a process whose parent has ended another one
 * at once, also when nobody has buried the parent yet, so it is looked at several times a second.
 * What is in the middle of being written is what a crash leaves.
 */
public final class Parent {
  private static final long INTERVAL_MS = 100;
  private static final int ENDED = 143; // as if it was asked to by SIGTERM
  private static boolean watched;

  private Parent() {}

  /**
   * Watch over the process of this number, once; nothing is done when it is not the parent, which
   * then is Spark's own.
   */
  public static synchronized void watch(long pid) {
    if (watched || number() != pid) return;
    watched = true;
    Thread thread = new Thread(() -> stay(pid), "headrace-parent");
    thread.setDaemon(true);
    thread.setPriority(Thread.MAX_PRIORITY);
    thread.start();
  }

  private static void stay(long pid) {
    try {
      while (number() == pid) Thread.sleep(INTERVAL_MS);
    } catch (InterruptedException e) {
      return; // nobody interrupts it
    }
    Runtime.getRuntime().halt(ENDED);
  }

  private static long number() {
    return ProcessHandle.current().parent().map(ProcessHandle::pid).orElse(-1L);
  }
}
