package headrace.kernel.aggregates;

/** What the aggregates of one group have gathered: numbers in lanes, everything else in cells. */
public final class Accumulator {
  final long[] lanes;
  final Object[] cells;

  Accumulator(int lanes, int cells) {
    this.lanes = new long[lanes];
    this.cells = new Object[cells];
  }
}
