package headrace.kernel.state;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.QueryInfo;
import org.apache.spark.sql.streaming.ValueState;

/**
 * The structures of the kernel's state beside plain ones of Java's, under the same random
 * operations.
 *
 * <p>Arguments: a seed, and how many rounds. Fails at the first difference.
 */
public final class StateStructures {
  private final Random dice;

  private StateStructures(long seed) {
    dice = new Random(seed);
  }

  public static void main(String[] arguments) {
    StateStructures checked = new StateStructures(Long.parseLong(arguments[0]));
    for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
      checked.keyTable();
      checked.bag();
      checked.repeats();
      checked.sortedBag();
      checked.keptStore();
      checked.store();
    }
    checked.written();
    checked.rewritten();
    checked.emptied();
    checked.room();
    System.out.println("equal");
  }

  /**
   * The memory of an attempt at a batch is used for the next only if that attempt wrote the state.
   */
  private void keptStore() {
    Saved saved = new Saved();
    UUID run = UUID.randomUUID();
    String name = "query\toperator\t" + run;
    int batches = 1 + dice.nextInt(6);
    TreeMap<String, Integer> wanted = new TreeMap<>();
    for (int batch = 0; batch < batches; batch++) {
      boolean twice = dice.nextBoolean(), changes = dice.nextInt(4) > 0;
      Saved before = saved.copy();
      for (int attempt = 0; attempt < (twice ? 2 : 1); attempt++) {
        saved = before.copy();
        // Of a batch that was run elsewhere again this place knows only the first attempt.
        ShardStore<Integer> store =
            attempt == 0 ? ShardStore.kept(name, info(run, batch), saved.data, saved.root) : null;
        if (store == null) store = ShardStore.open(NUMBER, new long[] {7}, saved.data, saved.root);
        if (changes) {
          Key key = new Key(new byte[] {(byte) dice.nextInt(5)});
          int value = dice.nextInt(1000);
          store.put(dice.nextInt(3), key, value);
        }
        store.flush();
        if (attempt == 0) store.keep(name, info(run, batch));
        if (attempt == (twice ? 1 : 0))
          wanted = held(ShardStore.open(NUMBER, new long[] {7}, saved.data, saved.root));
      }
    }
    ShardStore<Integer> next = ShardStore.kept(name, info(run, batches), saved.data, saved.root);
    if (next == null) next = ShardStore.open(NUMBER, new long[] {7}, saved.data, saved.root);
    same(held(next), wanted, "what a shard has in memory");
  }

  private static final ShardStore.Codec<Bag> BAG =
      new ShardStore.Codec<>() {
        @Override
        public void write(Bag value, ByteSink out) {
          value.write(out);
        }

        @Override
        public Bag read(ByteBuffer in) {
          return Bag.read(in);
        }

        @Override
        public int rows(Bag value) {
          return value.entries();
        }

        @Override
        public boolean isBrief(Bag value) {
          return value.isBrief();
        }

        @Override
        public void writeChange(Bag value, ByteSink out) {
          value.writeChange(out);
        }

        @Override
        public void readChange(Bag value, ByteBuffer in) {
          value.changed(in);
        }
      };

  /**
   * A store holds what was put there, whatever it has forgotten in memory, and leaves nothing
   * behind.
   */
  private void store() {
    Saved saved = new Saved();
    ShardStore<Bag> store = ShardStore.open(BAG, new long[0], saved.data, saved.root);
    TreeMap<String, TreeMap<String, Integer>> known = new TreeMap<>();
    long memory = ShardStore.most;
    ShardStore.most = dice.nextBoolean() ? memory : dice.nextInt(20_000);
    int keys = 1 + dice.nextInt(dice.nextBoolean() ? 3 : 100),
        groups = 1 + dice.nextInt(3),
        back = dice.nextInt(50);
    for (int batch = 0, batches = dice.nextInt(400); batch < batches; batch++) {
      for (int step = 0, steps = dice.nextInt(20); step < steps; step++) {
        long group = dice.nextInt(groups);
        byte[] name = bytes(keys), row = bytes(1000);
        Key key = new Key(name);
        String place = group + " " + text(name);
        if (dice.nextInt(100) == 0) {
          store.remove(group, key);
          known.remove(place);
          continue;
        }
        Bag bag = store.get(group, key);
        if (bag == null) bag = new Bag();
        int more = dice.nextInt(100) < back ? -1 : 1;
        bag.add(row, more);
        TreeMap<String, Integer> counts = known.computeIfAbsent(place, p -> new TreeMap<>());
        counts.merge(text(row), more, (one, other) -> one + other == 0 ? null : one + other);
        if (dice.nextInt(50) == 0) {
          String over = text(bytes(1000));
          bag.removeIf(each -> text(each).compareTo(over) < 0);
          counts.headMap(over).clear();
        }
        if (counts.isEmpty()) known.remove(place);
        if (bag.isEmpty()) store.remove(group, key);
        else store.put(group, key, bag);
      }
      if (dice.nextInt(150) == 0) {
        long group = dice.nextInt(groups);
        store.drop(group);
        known.keySet().removeIf(place -> place.startsWith(group + " "));
      }
      store.flush();
      same(store.entries(), (long) known.size(), "how many values are stored");
      same(
          store.weight() == 0 || store.weight() <= ShardStore.most,
          true,
          "that what is too much is forgotten");
      if (dice.nextInt(30) == 0) store = ShardStore.open(BAG, new long[0], saved.data, saved.root);
    }
    for (ShardStore<Bag> one :
        List.of(store, ShardStore.open(BAG, new long[0], saved.data, saved.root))) {
      TreeMap<String, TreeMap<String, Integer>> found = new TreeMap<>();
      for (long group : one.groups())
        one.each(group, (key, bag) -> found.put(group + " " + text(key.bytes), counts(bag)));
      same(found, known, "the values of a store");
      int rows = known.values().stream().mapToInt(TreeMap::size).sum();
      same(
          one.weight() >= one.bytes() + 64L * rows && one.weight() <= one.bytes() + 400L * rows,
          true,
          "that " + rows + " rows in " + one.bytes() + " bytes weigh " + one.weight());
    }
    ShardStore.most = memory;
    long bytes =
        saved.values.entrySet().stream()
            .filter(one -> one.getKey().remaining() > Long.BYTES)
            .mapToLong(one -> one.getValue().length)
            .sum();
    same(store.bytes(), bytes, "how many bytes are stored");
    for (long group : store.groups()) store.drop(group);
    store.flush();
    same(saved.values.size(), 0, "what is left of groups that are over");
  }

  /**
   * What is written for a change does not grow with what is there: neither with the rows of a key
   * nor with the keys.
   */
  private void written() {
    int batches = 20_000;
    for (boolean one : new boolean[] {true, false}) {
      Saved saved = new Saved();
      ShardStore<Bag> store = ShardStore.open(BAG, new long[0], saved.data, saved.root);
      TreeMap<String, Integer> rows = new TreeMap<>();
      long given = 0;
      for (int batch = 0; batch < batches; batch++) {
        if (batch % 3777 == 3776) store = ShardStore.open(BAG, new long[0], saved.data, saved.root);
        byte[] row = ("row " + batch + " of a store that grows and grows").getBytes(UTF_8);
        Key key = new Key(one ? new byte[] {1} : ByteBuffer.allocate(4).putInt(batch).array());
        Bag bag = one && batch > 0 ? store.get(0, key) : new Bag();
        bag.add(row, 1);
        store.put(0, key, bag);
        store.flush();
        given += row.length + 24;
        rows.put(text(row), 1);
      }
      TreeMap<String, Integer> found = new TreeMap<>();
      ShardStore.open(BAG, new long[0], saved.data, saved.root)
          .each(0, (key, bag) -> found.putAll(counts(bag)));
      same(found, rows, "what was written");
      same(
          saved.chunkBytes < 8 * given,
          true,
          "that " + saved.chunkBytes + " bytes are few for " + given);
      same(saved.values.size() < 64 * 50, true, "that chunks are merged");
    }
  }

  /**
   * Values of one bucket that are written again and again: the last one counts, and little is kept
   * of those before.
   */
  private void rewritten() {
    Saved saved = new Saved();
    ShardStore<Integer> store = ShardStore.open(NUMBER, new long[0], saved.data, saved.root);
    List<Key> keys = new ArrayList<>();
    TreeMap<String, Integer> known = new TreeMap<>();
    for (int n = 0; keys.size() < 1500; n++) {
      Key key = new Key(number(n));
      if ((key.hash >>> 16) % 64 == 0) keys.add(key);
    }
    for (int batch = 0; batch < 5_000; batch++) {
      for (Key key :
          batch == 0 ? keys : List.of(keys.get(dice.nextInt(batch < 2_500 ? 40 : 1500)))) {
        store.put(0, key, batch);
        known.put(0 + Arrays.toString(key.bytes), batch);
      }
      store.flush();
      if (dice.nextInt(500) == 0)
        store = ShardStore.open(NUMBER, new long[0], saved.data, saved.root);
    }
    same(
        held(ShardStore.open(NUMBER, new long[0], saved.data, saved.root)),
        known,
        "the last values");
    long least = 1500L * (100 + 13);
    same(
        store.bytes() <= 2 * least,
        true,
        "that " + store.bytes() + " bytes are not much more than " + least);
  }

  /**
   * Of a store that was large little is left when its values are gone: neither many keys nor many
   * rows of one.
   */
  private void emptied() {
    for (boolean one : new boolean[] {true, false}) {
      Saved saved = new Saved();
      ShardStore<Bag> store = ShardStore.open(BAG, new long[0], saved.data, saved.root);
      for (int n = 0; n < 10_000; n++) add(store, number(one ? 0 : n), number(n), 1);
      store.flush();
      long before = store.bytes();
      for (int n = 0; n < 9_900; n++) {
        add(store, number(one ? 0 : n), number(n), -1);
        if (n % 5 == 0) store.flush();
      }
      store.flush();
      same(
          store.bytes() < before / 10,
          true,
          "that " + store.bytes() + " bytes are left of " + before);
    }
  }

  private static byte[] number(int n) {
    return ByteBuffer.allocate(100).putInt(n).array();
  }

  private static void add(ShardStore<Bag> store, byte[] key, byte[] row, int more) {
    Bag bag = store.get(0, new Key(key));
    if (bag == null) bag = new Bag();
    bag.add(row, more);
    if (bag.isEmpty()) store.remove(0, new Key(key));
    else store.put(0, new Key(key), bag);
  }

  /**
   * Stores that nobody asks for go first, then what a store has not used, when all are too large
   * together.
   */
  private void room() {
    long memory = ShardStore.most;
    UUID run = UUID.randomUUID();
    Saved[] saved = {new Saved(), new Saved()};
    for (int i = 0; i < 2; i++) {
      ShardStore<Bag> store = ShardStore.open(BAG, new long[0], saved[i].data, saved[i].root);
      for (int group = 0; group < 2; group++) {
        for (int n = 0; n < 1000; n++) {
          Bag bag = new Bag();
          bag.add(bytes(1000), 1);
          store.put(group, new Key(number(n)), bag);
        }
      }
      store.flush();
      store.keep(i + "\troom", info(run, 0));
    }
    ShardStore<Bag> store = ShardStore.kept("1\troom", info(run, 1), saved[1].data, saved[1].root);
    ShardStore.most = store.weight() * 3 / 4;
    for (int n = 0; n < 1000; n++) store.get(0, new Key(number(n)));
    store.flush();
    same(
        ShardStore.kept("0\troom", info(run, 1), saved[0].data, saved[0].root) == null,
        true,
        "that what nobody asks for goes");
    int reads = saved[1].reads;
    for (int n = 0; n < 1000; n++) store.get(0, new Key(number(n)));
    same(saved[1].reads, reads, "that what is used stays");
    store.each(1, (key, bag) -> {});
    same(saved[1].reads > reads, true, "that what is not used goes");
    ShardStore.most = memory;
  }

  private static TreeMap<String, Integer> held(ShardStore<Integer> store) {
    TreeMap<String, Integer> found = new TreeMap<>();
    for (long group : store.groups())
      store.each(group, (key, value) -> found.put(group + Arrays.toString(key.bytes), value));
    return found;
  }

  private static QueryInfo info(UUID run, long batch) {
    return new QueryInfo() {
      @Override
      public UUID getQueryId() {
        return run;
      }

      @Override
      public UUID getRunId() {
        return run;
      }

      @Override
      public long getBatchId() {
        return batch;
      }
    };
  }

  private static final ShardStore.Codec<Integer> NUMBER =
      new ShardStore.Codec<>() {
        @Override
        public void write(Integer value, ByteSink out) {
          out.putInt(value);
        }

        @Override
        public Integer read(ByteBuffer in) {
          return in.getInt();
        }
      };

  /** The state of a shard as Spark has it, in a map. */
  private static final class Saved {
    final HashMap<ByteBuffer, byte[]> values = new HashMap<>();
    byte[] top;
    long chunkBytes;
    int reads;

    Saved copy() {
      Saved copy = new Saved();
      copy.values.putAll(values);
      copy.top = top;
      return copy;
    }

    final ValueState<byte[]> root =
        new ValueState<>() {
          @Override
          public boolean exists() {
            return top != null;
          }

          @Override
          public byte[] get() {
            return top;
          }

          @Override
          public void update(byte[] value) {
            top = value;
          }

          @Override
          public void clear() {
            top = null;
          }
        };

    final MapState<byte[], byte[]> data =
        new MapState<>() {
          @Override
          public boolean exists() {
            return !values.isEmpty();
          }

          @Override
          public byte[] getValue(byte[] key) {
            reads++;
            return values.get(ByteBuffer.wrap(key));
          }

          @Override
          public boolean containsKey(byte[] key) {
            return values.containsKey(ByteBuffer.wrap(key));
          }

          @Override
          public void updateValue(byte[] key, byte[] value) {
            values.put(ByteBuffer.wrap(key), value);
            if (key.length > Long.BYTES) chunkBytes += value.length;
          }

          @Override
          public void removeKey(byte[] key) {
            values.remove(ByteBuffer.wrap(key));
          }

          @Override
          public void clear() {
            values.clear();
          }

          @Override
          public scala.collection.Iterator<scala.Tuple2<byte[], byte[]>> iterator() {
            throw new UnsupportedOperationException();
          }

          @Override
          public scala.collection.Iterator<byte[]> keys() {
            throw new UnsupportedOperationException();
          }

          @Override
          public scala.collection.Iterator<byte[]> values() {
            throw new UnsupportedOperationException();
          }
        };
  }

  private static void same(Object found, Object wanted, String what) {
    if (!found.equals(wanted))
      throw new AssertionError(what + ": found " + found + ", wanted " + wanted);
  }

  private byte[] bytes(int different) {
    return ("key " + dice.nextInt(different)).getBytes(UTF_8);
  }

  private static String text(byte[] bytes) {
    return new String(bytes, UTF_8);
  }

  private void keyTable() {
    KeyTable<Integer> table = new KeyTable<>();
    Map<String, Integer> known = new HashMap<>();
    Map<String, Integer> stored = new HashMap<>();
    HashSet<String> changed = new HashSet<>();
    int different = 1 + dice.nextInt(300);
    for (int step = 0, steps = dice.nextInt(2000); step < steps; step++) {
      byte[] key = bytes(different);
      String name = text(key);
      int what = dice.nextInt(100);
      if (what < 55) {
        same(table.put(new Key(key), step), known.put(name, step) == null, "whether a key is new");
        changed.add(name);
      } else if (what < 95) {
        boolean was = known.remove(name) != null;
        same(table.remove(new Key(key)), was, "whether a key was there");
        if (was) changed.add(name);
      } else {
        Map<String, Integer> left = new HashMap<>();
        table.eachChange((one, value) -> left.put(text(one.bytes), value));
        same(left.keySet(), changed, "what has changed");
        left.forEach(
            (one, value) -> {
              if (value == null) stored.remove(one);
              else stored.put(one, value);
            });
        table.written();
        changed.clear();
        same(stored, known, "what is written");
      }
      same(table.changes(), changed.size(), "how many have changed");
      same(table.size(), known.size(), "how many there are");
      same(String.valueOf(table.get(new Key(key))), String.valueOf(known.get(name)), "a value");
    }
    Map<String, Integer> all = new HashMap<>();
    table.each(
        (key, value) -> same(all.put(text(key.bytes), value) == null, true, "each key once"));
    same(all, known, "all values");
    KeyTable<Integer> loaded = new KeyTable<>();
    known.forEach(
        (key, value) -> {
          loaded.load(new Key(key.getBytes(UTF_8)), -1);
          loaded.load(new Key(key.getBytes(UTF_8)), value % 3 == 0 ? null : value);
        });
    known.values().removeIf(value -> value % 3 == 0);
    same(loaded.size(), known.size(), "how many were loaded");
    same(loaded.changes(), 0, "what is loaded has not changed");
    known.forEach(
        (key, value) -> same(loaded.get(new Key(key.getBytes(UTF_8))), value, "a loaded value"));
  }

  private void bag() {
    Bag bag = new Bag();
    TreeMap<String, Integer> known = new TreeMap<>();
    int different = 1 + dice.nextInt(40), back = dice.nextInt(60);
    for (int step = 0, steps = dice.nextInt(300); step < steps; step++) {
      byte[] row = bytes(different);
      int more = (1 + dice.nextInt(2)) * (dice.nextInt(100) < back ? -1 : 1);
      bag.add(row, more);
      known.merge(text(row), more, (one, other) -> one + other == 0 ? null : one + other);
      if (dice.nextInt(20) == 0) bag = dice.nextBoolean() ? bag.copy() : read(bag);
      if (dice.nextInt(40) == 0) {
        String over = text(bytes(different));
        same(
            bag.removeIf(one -> text(one).equals(over)),
            known.remove(over) != null,
            "whether a row was forgotten");
      }
      same(counts(bag), known, "the rows of a bag");
      same(
          bag.size(),
          known.values().stream().mapToInt(Integer::intValue).sum(),
          "how many rows there are");
      same(bag.isEmpty(), known.isEmpty(), "whether it is empty");
    }
  }

  /** Rows that are there thousands of times take the room of a few. */
  private void repeats() {
    Bag bag = new Bag();
    int different = 1 + dice.nextInt(20);
    for (int i = 0; i < 5000; i++) bag.add(bytes(different), 1);
    for (Bag one : List.of(bag, bag.copy(), read(bag))) {
      int[] entries = {0};
      one.each((row, times) -> entries[0]++);
      same(entries[0] <= different, true, "that repeats are counted");
      same(one.size(), 5000, "how many rows there are");
    }
  }

  private static Bag read(Bag bag) {
    ByteSink out = new ByteSink(16);
    bag.write(out);
    return Bag.read(ByteBuffer.wrap(out.bytes()));
  }

  private static TreeMap<String, Integer> counts(Bag bag) {
    TreeMap<String, Integer> counts = new TreeMap<>();
    bag.each((row, times) -> counts.merge(text(row), times, Integer::sum));
    return counts;
  }

  private static final SortedBag.Items<Integer> NUMBERS =
      new SortedBag.Items<>() {
        @Override
        public int compare(Integer one, Integer other) {
          return one.compareTo(other);
        }

        @Override
        public void write(Integer item, ByteSink out) {
          out.putInt(item);
        }

        @Override
        public Integer read(ByteBuffer in) {
          return in.getInt();
        }
      };

  /** Pages that are written when they are put, and read when they are asked for. */
  private static final class Shelf implements SortedBag.Pages {
    private final HashMap<Long, byte[]> pages = new HashMap<>();
    private long last;

    @Override
    public long number() {
      return last++;
    }

    @Override
    public SortedBag.Page<?> get(long number) {
      return SortedBag.Page.read(NUMBERS, ByteBuffer.wrap(pages.get(number)));
    }

    @Override
    public void put(long number, SortedBag.Page<?> page) {
      ByteSink out = new ByteSink(16);
      page.write(out);
      pages.put(number, out.bytes());
    }

    @Override
    public void remove(long number) {
      pages.remove(number);
    }
  }

  private void sortedBag() {
    SortedBag<Integer> bag = new SortedBag<>(NUMBERS);
    TreeMap<Integer, Integer> known = new TreeMap<>();
    Shelf shelf = new Shelf();
    int different = dice.nextBoolean() ? 20 : 2000,
        back = dice.nextInt(50),
        most = 1 + dice.nextInt(1500);
    for (int step = 0, steps = dice.nextInt(2500); step < steps; step++) {
      int item = dice.nextInt(different), more = dice.nextInt(100) < back ? -1 : 1;
      bag.add(item, more);
      known.merge(item, more, (one, other) -> one + other == 0 ? null : one + other);
      if (known.size() > most) {
        same(bag.last(), known.lastKey(), "the last item");
        bag.dropLast();
        known.pollLastEntry();
      }
      if (dice.nextInt(100) == 0) {
        bag.save(shelf);
        ByteSink out = new ByteSink(16);
        bag.write(out);
        bag = SortedBag.read(NUMBERS, ByteBuffer.wrap(out.bytes()));
        bag.attach(shelf);
      }
    }
    List<String> found = new ArrayList<>(), wanted = new ArrayList<>();
    bag.each((item, times) -> found.add(item + " x " + times));
    known.forEach(
        (item, times) -> {
          if (times > 0) wanted.add(item + " x " + times);
        });
    same(found, wanted, "the items of a bag");
    same(bag.different(), wanted.size(), "how many items there are");
    same(bag.isEmpty(), known.isEmpty(), "whether it is empty");
  }
}
