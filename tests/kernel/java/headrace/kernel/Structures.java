package headrace.kernel;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

/**
 * The structures of the kernel's state beside plain ones of Java's, under the same random operations.
 *
 * <p>Arguments: a seed, and how many rounds. Fails at the first difference.
 */
public final class Structures {
  private final Random dice;

  private Structures(long seed) {
    dice = new Random(seed);
  }

  public static void main(String[] arguments) {
    Structures checked = new Structures(Long.parseLong(arguments[0]));
    for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
      checked.keyTable();
      checked.bag();
      checked.repeats();
      checked.sortedBag();
      checked.parcels();
    }
    System.out.println("equal");
  }

  private static void same(Object found, Object wanted, String what) {
    if (!found.equals(wanted)) throw new AssertionError(what + ": found " + found + ", wanted " + wanted);
  }

  private byte[] bytes(int different) {
    return ("key " + dice.nextInt(different)).getBytes();
  }

  private static String text(byte[] bytes) {
    return new String(bytes);
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
        left.forEach((one, value) -> {
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
    table.each((key, value) -> same(all.put(text(key.bytes), value) == null, true, "each key once"));
    same(all, known, "all values");
    KeyTable<Integer> loaded = new KeyTable<>();
    known.forEach((key, value) -> {
      loaded.load(new Key(key.getBytes()), -1);
      loaded.load(new Key(key.getBytes()), value % 3 == 0 ? null : value);
    });
    known.values().removeIf(value -> value % 3 == 0);
    same(loaded.size(), known.size(), "how many were loaded");
    same(loaded.changes(), 0, "what is loaded has not changed");
    known.forEach((key, value) -> same(loaded.get(new Key(key.getBytes())), value, "a loaded value"));
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
        same(bag.removeIf(one -> text(one).equals(over)), known.remove(over) != null, "whether a row was forgotten");
      }
      same(counts(bag), known, "the rows of a bag");
      same(bag.size(), known.values().stream().mapToInt(Integer::intValue).sum(), "how many rows there are");
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

  private static final SortedBag.Items<Integer> NUMBERS = new SortedBag.Items<>() {
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
    int different = dice.nextBoolean() ? 20 : 2000, back = dice.nextInt(50), most = 1 + dice.nextInt(1500);
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
    known.forEach((item, times) -> {
      if (times > 0) wanted.add(item + " x " + times);
    });
    same(found, wanted, "the items of a bag");
    same(bag.different(), wanted.size(), "how many items there are");
    same(bag.isEmpty(), known.isEmpty(), "whether it is empty");
  }

  private void parcels() {
    int shards = 1 + dice.nextInt(5), largest = dice.nextBoolean() ? 100 : 200_000;
    List<byte[]> sent = new ArrayList<>();
    for (int i = 0, count = dice.nextInt(largest == 100 ? 5000 : 10); i < count; i++) {
      byte[] body = new byte[dice.nextInt(largest)];
      dice.nextBytes(body);
      sent.add(new ByteSink(16).put(Message.PARTIAL).putInt(dice.nextInt(shards)).put(body).bytes());
    }
    Map<Integer, List<String>> wanted = new HashMap<>(), found = new HashMap<>();
    for (byte[] one : sent) wanted.computeIfAbsent(Message.shard(one), s -> new ArrayList<>()).add(Arrays.toString(one));
    int parcels = 0;
    for (Parcels packed = new Parcels(sent.iterator()); packed.hasNext(); parcels++) {
      byte[] parcel = packed.next();
      ByteBuffer in = ByteBuffer.wrap(parcel);
      same(in.get(), Message.PARCEL, "the kind of a parcel");
      List<String> to = found.computeIfAbsent(Message.shard(parcel), s -> new ArrayList<>());
      in.getInt();
      Parcels.each(in, one -> to.add(Arrays.toString(Arrays.copyOfRange(one.array(), one.position(), one.limit()))));
    }
    same(found, wanted, "the messages of the shards");
    same(largest > 100 || parcels <= shards + sent.size() / 400, true, "that many go in one parcel");
  }
}
