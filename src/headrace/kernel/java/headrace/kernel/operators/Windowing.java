package headrace.kernel.operators;

import java.io.Serializable;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneId;

/**
 * Which windows there are, in microseconds.
 *
 * <p>Events are gathered in panes, the pieces that every window is made of whole: a tumbling window
 * is one pane, a hopping one several. Starts of windows are aligned to the epoch plus an offset, or
 * to the days of a time zone.
 */
abstract class Windowing implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final long DAY = 86_400_000_000L;

  /** Windows of a size, of which one begins every so often. */
  static Windowing even(long size, long every, long offset) {
    return new Even(size, every, offset);
  }

  /** Windows of whole days of a time zone. */
  static Windowing days(String zone, long size, long offset) {
    return new Days(ZoneId.of(zone), size / DAY, offset / DAY);
  }

  /** One window for all time. */
  static Windowing global() {
    return new Global();
  }

  /** The start of the pane that a time is in. */
  abstract long pane(long at);

  /** The start of the last window that holds the pane. */
  abstract long lastWindow(long pane);

  /** The start of the window before. */
  abstract long before(long window);

  /** The end of the window. */
  abstract long end(long window);

  /** The end of the pane. */
  abstract long paneEnd(long pane);

  /** The end of the last window that holds the pane: when it is over, the pane is. */
  long lastEnd(long pane) {
    return end(lastWindow(pane));
  }

  private static final class Even extends Windowing {
    private static final long serialVersionUID = 1L;
    private final long size;
    private final long every;
    private final long offset;
    private final long pane;

    Even(long size, long every, long offset) {
      this.size = size;
      this.every = every;
      this.offset = Math.floorMod(offset, every);
      long a = size, b = every;
      while (b != 0) {
        long rest = a % b;
        a = b;
        b = rest;
      }
      this.pane = a;
    }

    @Override
    long pane(long at) {
      return Math.floorDiv(at - offset, pane) * pane + offset;
    }

    @Override
    long lastWindow(long pane) {
      return Math.floorDiv(pane - offset, every) * every + offset;
    }

    @Override
    long before(long window) {
      return window - every;
    }

    @Override
    long end(long window) {
      return window + size;
    }

    @Override
    long paneEnd(long start) {
      return start + pane;
    }
  }

  /** Windows of whole days of a time zone; a day there may have 23 or 25 hours. */
  private static final class Days extends Windowing {
    private static final long serialVersionUID = 1L;
    private final ZoneId zone;
    private final long days;
    private final long offset;

    Days(ZoneId zone, long days, long offset) {
      this.zone = zone;
      this.days = days;
      this.offset = offset;
    }

    private long start(long day) {
      Instant start = LocalDate.ofEpochDay(day).atStartOfDay(zone).toInstant();
      return start.getEpochSecond() * 1_000_000 + start.getNano() / 1000;
    }

    /** The first day of the window that holds the time. */
    private long first(long at) {
      Instant instant =
          Instant.ofEpochSecond(
              Math.floorDiv(at, 1_000_000L), Math.floorMod(at, 1_000_000L) * 1000);
      long day = instant.atZone(zone).toLocalDate().toEpochDay();
      if (at >= start(day + 1))
        day++; // a clock that went back over midnight: the first midnight counts
      return day - Math.floorMod(day - offset, days);
    }

    @Override
    long pane(long at) {
      return start(first(at));
    }

    @Override
    long lastWindow(long pane) {
      return pane;
    }

    @Override
    long before(long window) {
      return start(first(window) - days);
    }

    @Override
    long end(long window) {
      return start(first(window) + days);
    }

    @Override
    long paneEnd(long pane) {
      return end(pane);
    }
  }

  private static final class Global extends Windowing {
    private static final long serialVersionUID = 1L;

    @Override
    long pane(long at) {
      return 0;
    }

    @Override
    long lastWindow(long pane) {
      return 0;
    }

    @Override
    long before(long window) {
      return Long.MIN_VALUE;
    }

    @Override
    long end(long window) {
      return Long.MAX_VALUE;
    }

    @Override
    long paneEnd(long pane) {
      return Long.MAX_VALUE;
    }
  }
}
