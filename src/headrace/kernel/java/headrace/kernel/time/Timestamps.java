package headrace.kernel.time;

import java.time.LocalDate;

/**
 * ISO-8601 timestamps as microseconds since the epoch, read from bytes and written to text without
 * garbage.
 *
 * <p>{@code 2026-11-15T12:00:00[.fraction][Z|+01:00|+0100|+01]}; a blank may stand for the T. A
 * fraction has one to nine digits; what is beyond a microsecond is cut off. An offset is 18 hours
 * at most. A leap second (…:60) is refused, and so is what lies before the year 1 or after 9999 in
 * UTC, because neither Spark's types nor Python's hold it.
 */
public final class Timestamps {
  public static final long UNREADABLE = Long.MIN_VALUE;
  public static final long NO_ZONE = Long.MIN_VALUE + 1;
  private static final long SECOND = 1_000_000L;
  public static final long FIRST = days(1, 1, 1) * 86_400 * SECOND;
  public static final long LAST = (days(9999, 12, 31) + 1) * 86_400 * SECOND - 1;

  private Timestamps() {}

  /**
   * {@link #UNREADABLE} or {@link #NO_ZONE} when it does not fit; a zone is required when zoned,
   * and refused when not.
   */
  public static long parse(byte[] b, int from, int to, boolean zoned) {
    if (to - from < 19
        || (b[from + 10] != 'T' && b[from + 10] != ' ')
        || b[from + 13] != ':'
        || b[from + 16] != ':') return UNREADABLE;
    long day = date(b, from, from + 10);
    int hour = digits(b, from + 11, 2),
        minute = digits(b, from + 14, 2),
        second = digits(b, from + 17, 2);
    if (day == UNREADABLE
        || hour < 0
        || hour > 23
        || minute < 0
        || minute > 59
        || second < 0
        || second > 59) return UNREADABLE;
    long micros = (((day * 24 + hour) * 60 + minute) * 60 + second) * SECOND;
    int i = from + 19;
    if (i < to && b[i] == '.') {
      int start = ++i;
      long unit = SECOND / 10;
      for (; i < to && b[i] >= '0' && b[i] <= '9'; i++, unit /= 10) micros += (b[i] - '0') * unit;
      if (i == start || i - start > 9) return UNREADABLE;
    }
    if (i == to) return zoned ? NO_ZONE : micros;
    if (!zoned) return UNREADABLE;
    byte sign = b[i++];
    if (sign == 'Z') return i == to ? micros : UNREADABLE;
    if (sign != '+' && sign != '-') return UNREADABLE;
    int hours = to - i >= 2 ? digits(b, i, 2) : -1, minutes = 0;
    i += 2;
    if (i < to) {
      if (b[i] == ':') i++;
      minutes = to - i == 2 ? digits(b, i, 2) : -1;
    }
    if (hours < 0 || minutes < 0 || minutes > 59 || hours * 60 + minutes > 18 * 60)
      return UNREADABLE;
    long offset = (hours * 60L + minutes) * 60 * SECOND;
    micros += sign == '+' ? -offset : offset;
    return FIRST <= micros && micros <= LAST ? micros : UNREADABLE;
  }

  /** Days since the epoch of {@code 2026-11-15}, or {@link #UNREADABLE}. */
  public static long date(byte[] b, int from, int to) {
    if (to - from != 10 || b[from + 4] != '-' || b[from + 7] != '-') return UNREADABLE;
    int year = digits(b, from, 4), month = digits(b, from + 5, 2), day = digits(b, from + 8, 2);
    boolean exists =
        year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= length(year, month);
    return exists ? days(year, month, day) : UNREADABLE;
  }

  private static int digits(byte[] b, int from, int n) {
    int value = 0;
    for (int i = from; i < from + n; i++) {
      int d = b[i] - '0';
      if (d < 0 || d > 9) return -1;
      value = value * 10 + d;
    }
    return value;
  }

  private static int length(int year, int month) {
    if (month == 2) return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
  }

  /** Days since 1970-01-01 in the proleptic Gregorian calendar. */
  private static long days(int year, int month, int day) {
    long y = month <= 2 ? year - 1 : year;
    long era = Math.floorDiv(y, 400L);
    long ofEra = y - era * 400;
    long ofYear = (153L * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - 719468;
  }

  /** Appends {@code 2026-11-15T12:00:00.000000}, and Z when zoned. */
  public static void write(StringBuilder out, long micros, boolean zoned) {
    long day = Math.floorDiv(micros, 86_400L * SECOND);
    long rest = Math.floorMod(micros, 86_400L * SECOND);
    out.append(LocalDate.ofEpochDay(day)).append('T');
    padded(out, rest / (3600 * SECOND), 2);
    out.append(':');
    padded(out, rest / (60 * SECOND) % 60, 2);
    out.append(':');
    padded(out, rest / SECOND % 60, 2);
    out.append('.');
    padded(out, rest % SECOND, 6);
    if (zoned) out.append('Z');
  }

  private static void padded(StringBuilder out, long value, int width) {
    String text = Long.toString(value);
    for (int i = text.length(); i < width; i++) out.append('0');
    out.append(text);
  }
}
