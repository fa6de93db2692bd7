package headrace.kernel.operators;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** All operators by their names; a new one is a subclass of {@link ShardProcessor}, listed here. */
final class Operators {
  private static final Map<String, OperatorKind<?>> ALL = new TreeMap<>();

  static {
    for (OperatorKind<?> kind :
        List.of(
            Windows.TUMBLING,
            Windows.HOPPING,
            Sessions.KIND,
            GlobalWindow.KIND,
            Sliding.KIND,
            TableAggregate.KIND,
            Top.KIND,
            Normalize.KIND,
            Upserts.KIND,
            History.KIND,
            TableJoin.KIND,
            IntervalJoin.KIND,
            LookupJoin.KIND)) ALL.put(kind.name(), kind);
  }

  private Operators() {}

  static Iterable<OperatorKind<?>> all() {
    return ALL.values();
  }

  static OperatorKind<?> of(String name) {
    OperatorKind<?> found = ALL.get(name);
    if (found == null) {
      throw new IllegalArgumentException(
          "there is no operator `" + name + "`, only " + ALL.keySet());
    }
    return found;
  }
}
