package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.sketch.CountMinSketch;
import org.apache.spark.util.sketch.IncompatibleMergeException;

/** How often each of a few values is there. */
final class CountMin extends Aggregate {
  private static final int SEED = 1;
  private final int input;
  private final String[] of;
  private final double error;
  private final double confidence;

  CountMin(int input, String[] of, double error, double confidence) {
    this.input = input;
    this.of = of;
    this.error = error;
    this.confidence = confidence;
  }

  @Override
  int cells() {
    return 1;
  }

  private CountMinSketch sketch(Accumulator of) {
    if (of.cells[cell] == null) of.cells[cell] = CountMinSketch.create(error, confidence, SEED);
    return (CountMinSketch) of.cells[cell];
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input)) sketch(to).addBinary(row.getUTF8String(input).getBytes());
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    if (from.cells[cell] == null) return;
    try {
      sketch(to).mergeInPlace(sketch(from));
    } catch (IncompatibleMergeException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  Object result(Accumulator from) {
    Object[] names = new Object[of.length], counts = new Object[of.length];
    for (int i = 0; i < of.length; i++) {
      names[i] = UTF8String.fromString(of[i]);
      counts[i] =
          from.cells[cell] == null
              ? 0L
              : sketch(from).estimateCount(of[i].getBytes(StandardCharsets.UTF_8));
    }
    return new ArrayBasedMapData(new GenericArrayData(names), new GenericArrayData(counts));
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    try {
      out.putSized(from.cells[cell] == null ? new byte[0] : sketch(from).toByteArray());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    byte[] bytes = Value.sized(in);
    if (bytes.length == 0) return;
    try {
      to.cells[cell] = CountMinSketch.readFrom(bytes);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
