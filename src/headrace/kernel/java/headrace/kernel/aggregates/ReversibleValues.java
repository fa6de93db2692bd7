package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.SortedBag;
import java.nio.ByteBuffer;
import org.apache.spark.sql.types.DataType;
import scala.math.Ordering;

/** Something of all values there are, each with how often it is there. */
abstract class ReversibleValues extends ReversibleAggregate implements SortedBag.Items<Object> {
  private final int number;
  final DataType type;
  private transient Ordering<Object> order;

  ReversibleValues(int number, int input, DataType type) {
    super(input);
    this.number = number;
    this.type = type;
  }

  @Override
  public final int number() {
    return number;
  }

  @Override
  final int cells() {
    return 1;
  }

  @SuppressWarnings("unchecked")
  final SortedBag<Object> bag(Accumulator of) {
    if (of.cells[cell] == null) of.cells[cell] = new SortedBag<>(this);
    return (SortedBag<Object>) of.cells[cell];
  }

  final int values(Object one, Object other) {
    if (one == null || other == null) return Boolean.compare(one != null, other != null);
    if (one instanceof Long a && other instanceof Long b) return Long.compare(a, b);
    if (order == null) order = Order.of(type);
    return order.compare(one, other);
  }

  @Override
  final void merge(Accumulator to, Accumulator from) {
    if (from.cells[cell] != null) bag(to).addAll(bag(from));
  }

  @Override
  final boolean isClear(Accumulator of) {
    return of.cells[cell] == null || bag(of).isEmpty();
  }

  @Override
  final void attach(Accumulator of, SortedBag.Pages pages) {
    bag(of).attach(pages);
  }

  @Override
  final void save(Accumulator of, SortedBag.Pages pages) {
    bag(of).save(pages);
  }

  @Override
  final void write(Accumulator from, ByteSink out) {
    bag(from).write(out);
  }

  @Override
  final void read(Accumulator to, ByteBuffer in) {
    to.cells[cell] = SortedBag.read(this, in);
  }

  @Override
  final SortedBag.Items<?> items() {
    return this;
  }
}
