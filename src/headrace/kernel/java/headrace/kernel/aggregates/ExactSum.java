package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * The sum of doubles as a real number, rounded once: whatever is added and taken away, in whatever
 * order, what is left is the sum of what is there.
 *
 * <p>It is kept as doubles of which none overlaps another (Shewchuk's expansions), the smallest
 * first; two or three are the rule. They are scaled, so that no sum on the way is too large; so
 * digits below some 1e-305 are lost.
 */
final class ExactSum {
  private static final double SCALE = 0x1p-64;
  private double[] parts = new double[2];
  private int size;

  boolean isZero() {
    return size == 0;
  }

  /** A finite number more. */
  void add(double value) {
    grow(value * SCALE);
  }

  void add(ExactSum other) {
    for (int i = 0, count = other.size; i < count; i++) grow(other.parts[i]);
  }

  private void grow(double value) {
    double sum = value;
    int kept = 0;
    for (int i = 0; i < size; i++) {
      double part = parts[i], large = sum, small = part;
      if (Math.abs(sum) < Math.abs(part)) {
        large = part;
        small = sum;
      }
      sum = large + small;
      double rest = small - (sum - large);
      if (rest != 0) parts[kept++] = rest;
    }
    size = kept;
    if (sum == 0) return;
    if (size == parts.length) parts = Arrays.copyOf(parts, size * 2);
    parts[size++] = sum;
  }

  /** The double nearest to the sum; infinite when it is beyond all doubles. */
  double value() {
    if (size == 0) return 0;
    int i = size - 1;
    double sum = parts[i], rest = 0;
    while (i > 0 && rest == 0) {
      double large = sum, small = parts[--i];
      sum = large + small;
      rest = small - (sum - large);
    }
    // Half way between two doubles, what lies further down decides.
    if (i > 0 && rest != 0 && (rest < 0) == (parts[i - 1] < 0)) {
      double twice = rest * 2, up = sum + twice;
      if (twice == up - sum) sum = up;
    }
    return sum / SCALE;
  }

  void write(ByteSink out) {
    out.putInt(size);
    for (int i = 0; i < size; i++) out.putLong(Double.doubleToRawLongBits(parts[i]));
  }

  static ExactSum read(ByteBuffer in) {
    ExactSum sum = new ExactSum();
    sum.size = in.getInt();
    sum.parts = new double[Math.max(2, sum.size)];
    for (int i = 0; i < sum.size; i++) sum.parts[i] = Double.longBitsToDouble(in.getLong());
    return sum;
  }
}
