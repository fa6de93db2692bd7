package headrace.kernel.simulation;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.QueryInfo;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.ValueState;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What an operator keeps in one partition, in memory: of each key values, lists and maps by name,
 * and timers.
 *
 * <p>Arrays are taken as they are; whoever puts one does not change it.
 */
final class State implements StatefulProcessorHandle {
  private static final long serialVersionUID = 1L;

  private final Simulation.Run run;
  private Map<Row, Map<String, Object>> kept = new HashMap<>();
  private TreeMap<Long, List<Row>> timers = new TreeMap<>();
  private Map<Row, Map<String, Object>> keptBefore;
  private TreeMap<Long, List<Row>> timersBefore;
  private Row key;

  State(Simulation.Run run) {
    this.run = run;
  }

  /** Remembers what is there. */
  void keep() {
    keptBefore = copied(kept);
    timersBefore = copied(timers);
  }

  /** What was there when it was last remembered. */
  void putBack() {
    kept = copied(keptBefore);
    timers = copied(timersBefore);
  }

  private static Map<Row, Map<String, Object>> copied(Map<Row, Map<String, Object>> from) {
    Map<Row, Map<String, Object>> to = new HashMap<>();
    from.forEach(
        (key, values) -> {
          Map<String, Object> mine = new HashMap<>();
          values.forEach(
              (name, value) ->
                  mine.put(
                      name,
                      value instanceof Map<?, ?> map
                          ? new LinkedHashMap<>(map)
                          : value instanceof List<?> list ? new ArrayList<>(list) : value));
          to.put(key, mine);
        });
    return to;
  }

  private static TreeMap<Long, List<Row>> copied(TreeMap<Long, List<Row>> from) {
    TreeMap<Long, List<Row>> to = new TreeMap<>();
    from.forEach((at, keys) -> to.put(at, new ArrayList<>(keys)));
    return to;
  }

  /** The key that state and timers are of until the next call. */
  void of(Row key) {
    this.key = key;
  }

  /** A time that a key has asked for. */
  record Timer(long at, Row key) {}

  /** The timers that are due at this time, in order. */
  List<Timer> due(long now) {
    List<Timer> found = new ArrayList<>();
    timers
        .headMap(now, true)
        .forEach((at, keys) -> keys.forEach(key -> found.add(new Timer(at, key))));
    return found;
  }

  boolean isSet(Timer timer) {
    return timers.getOrDefault(timer.at, List.of()).contains(timer.key);
  }

  @SuppressWarnings("unchecked")
  private <T> T get(String name) {
    return (T) kept.getOrDefault(key, Map.of()).get(name);
  }

  private void put(String name, Object value) {
    kept.computeIfAbsent(key, k -> new HashMap<>()).put(name, value);
  }

  private void remove(String name) {
    Map<String, Object> mine = kept.get(key);
    if (mine == null) return;
    mine.remove(name);
    if (mine.isEmpty()) kept.remove(key);
  }

  @Override
  public <T> ValueState<T> getValueState(String name, Encoder<T> of, TTLConfig ttl) {
    return new ValueState<>() {
      private static final long serialVersionUID = 1L;

      @Override
      public boolean exists() {
        return get() != null;
      }

      @Override
      public T get() {
        return State.this.get(name);
      }

      @Override
      public void update(T value) {
        put(name, value);
      }

      @Override
      public void clear() {
        remove(name);
      }
    };
  }

  @Override
  public <T> ListState<T> getListState(String name, Encoder<T> of, TTLConfig ttl) {
    return new ListState<>() {
      private static final long serialVersionUID = 1L;

      private List<T> all() {
        List<T> known = State.this.get(name);
        return known == null ? List.of() : known;
      }

      @Override
      public boolean exists() {
        return !all().isEmpty();
      }

      @Override
      public Iterator<T> get() {
        return CollectionConverters.asScala(new ArrayList<>(all()).iterator());
      }

      @Override
      @SuppressWarnings("unchecked")
      public void put(Object values) {
        State.this.put(name, new ArrayList<>(Arrays.asList((T[]) values)));
      }

      @Override
      public void appendValue(T value) {
        List<T> more = new ArrayList<>(all());
        more.add(value);
        State.this.put(name, more);
      }

      @Override
      @SuppressWarnings("unchecked")
      public void appendList(Object values) {
        List<T> more = new ArrayList<>(all());
        more.addAll(Arrays.asList((T[]) values));
        State.this.put(name, more);
      }

      @Override
      public void clear() {
        remove(name);
      }
    };
  }

  /** Bytes as a key of a map. */
  private record Name(byte[] bytes) {
    @Override
    public boolean equals(Object other) {
      return other instanceof Name name && Arrays.equals(bytes, name.bytes);
    }

    @Override
    public int hashCode() {
      return Arrays.hashCode(bytes);
    }
  }

  @Override
  public <K, V> MapState<K, V> getMapState(
      String name, Encoder<K> keys, Encoder<V> values, TTLConfig ttl) {
    return new MapState<>() {
      private static final long serialVersionUID = 1L;

      private Map<Name, V> all() {
        Map<Name, V> known = State.this.get(name);
        return known == null ? Map.of() : known;
      }

      @SuppressWarnings("unchecked")
      private K named(Name of) {
        return (K) of.bytes;
      }

      @Override
      public boolean exists() {
        return !all().isEmpty();
      }

      @Override
      public V getValue(K key) {
        return all().get(new Name((byte[]) key));
      }

      @Override
      public boolean containsKey(K key) {
        return all().containsKey(new Name((byte[]) key));
      }

      @Override
      public void updateValue(K key, V value) {
        Map<Name, V> known = State.this.get(name);
        if (known == null) State.this.put(name, known = new LinkedHashMap<>());
        known.put(new Name((byte[]) key), value);
      }

      @Override
      public Iterator<Tuple2<K, V>> iterator() {
        return CollectionConverters.asScala(
            all().entrySet().stream()
                .map(one -> Tuple2.apply(named(one.getKey()), one.getValue()))
                .toList()
                .iterator());
      }

      @Override
      public Iterator<K> keys() {
        return CollectionConverters.asScala(
            all().keySet().stream().map(this::named).toList().iterator());
      }

      @Override
      public Iterator<V> values() {
        return CollectionConverters.asScala(List.copyOf(all().values()).iterator());
      }

      @Override
      public void removeKey(K key) {
        Map<Name, V> known = State.this.get(name);
        if (known != null) known.remove(new Name((byte[]) key));
      }

      @Override
      public void clear() {
        remove(name);
      }
    };
  }

  @Override
  public <T> ValueState<T> getValueState(String name, TTLConfig ttl, Encoder<T> of) {
    return getValueState(name, of, ttl);
  }

  @Override
  public <T> ListState<T> getListState(String name, TTLConfig ttl, Encoder<T> of) {
    return getListState(name, of, ttl);
  }

  @Override
  public <K, V> MapState<K, V> getMapState(
      String name, TTLConfig ttl, Encoder<K> keys, Encoder<V> values) {
    return getMapState(name, keys, values, ttl);
  }

  @Override
  public void registerTimer(long at) {
    List<Row> keys = timers.computeIfAbsent(at, t -> new ArrayList<>());
    if (!keys.contains(key)) keys.add(key);
  }

  @Override
  public void deleteTimer(long at) {
    List<Row> keys = timers.get(at);
    if (keys == null) return;
    keys.remove(key);
    if (keys.isEmpty()) timers.remove(at);
  }

  @Override
  public Iterator<Object> listTimers() {
    TreeSet<Object> mine = new TreeSet<>();
    timers.forEach(
        (at, keys) -> {
          if (keys.contains(key)) mine.add(at);
        });
    return CollectionConverters.asScala(mine.iterator());
  }

  @Override
  public void deleteIfExists(String name) {
    remove(name);
  }

  @Override
  public QueryInfo getQueryInfo() {
    UUID query = run.query, id = run.id;
    long batch = run.batch;
    return new QueryInfo() {
      private static final long serialVersionUID = 1L;

      @Override
      public UUID getQueryId() {
        return query;
      }

      @Override
      public UUID getRunId() {
        return id;
      }

      @Override
      public long getBatchId() {
        return batch;
      }
    };
  }
}
