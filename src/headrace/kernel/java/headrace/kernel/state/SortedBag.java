package headrace.kernel.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;

/**
 * Items in order, each so many times; less than none where one was taken back before it came.
 *
 * <p>They lie in pages of a few hundred, so that a change of a large bag costs a page and not the
 * bag. As long as there is one page it is written with the bag; of several, each is a value of its
 * own in the {@link Pages}, is read when it is asked for, and is written again when it has changed.
 */
public final class SortedBag<T> {
  private static final int MOST = 256;
  private static final long INSIDE = -1;

  /** What is known of the items. */
  public interface Items<T> {
    int compare(T one, T other);

    void write(T item, ByteSink out);

    T read(ByteBuffer in);

    /** Which of those of an operator this is. */
    default int number() {
      return 0;
    }
  }

  /** Where the pages of large bags are. */
  public interface Pages {
    long number();

    Page<?> get(long number);

    void put(long number, Page<?> page);

    void remove(long number);
  }

  /**
   * Items in order, and how often each is there; there are no `counts` as long as each is there
   * once.
   */
  public static final class Page<T> {
    public final Items<T> of;
    private Object[] items;
    private int[] counts;
    private int size;

    private Page(Items<T> of, int capacity) {
      this.of = of;
      items = new Object[capacity];
    }

    public int size() {
      return size;
    }

    private int count(int place) {
      return counts == null ? 1 : counts[place];
    }

    private void count(int place, int count) {
      if (counts == null && count == 1) return;
      if (counts == null) {
        counts = new int[items.length];
        Arrays.fill(counts, 0, size, 1);
      }
      counts[place] = count;
    }

    @SuppressWarnings("unchecked")
    private T item(int place) {
      return (T) items[place];
    }

    /** The place of an item, or one less than minus the place where it would be. */
    private int find(T item) {
      int low = 0, high = size - 1;
      while (low <= high) {
        int middle = (low + high) >>> 1, compared = of.compare(item(middle), item);
        if (compared == 0) return middle;
        if (compared < 0) low = middle + 1;
        else high = middle - 1;
      }
      return -low - 1;
    }

    private void insert(int place, T item, int count) {
      if (size == items.length) {
        items = Arrays.copyOf(items, size * 2);
        if (counts != null) counts = Arrays.copyOf(counts, size * 2);
      }
      System.arraycopy(items, place, items, place + 1, size - place);
      if (counts != null) System.arraycopy(counts, place, counts, place + 1, size - place);
      items[place] = item;
      size++;
      count(place, count);
    }

    private void delete(int place) {
      size--;
      System.arraycopy(items, place + 1, items, place, size - place);
      if (counts != null) System.arraycopy(counts, place + 1, counts, place, size - place);
      items[size] = null;
    }

    private Page<T> half() {
      Page<T> upper = new Page<>(of, MOST);
      int from = size / 2;
      upper.size = size - from;
      System.arraycopy(items, from, upper.items, 0, upper.size);
      if (counts != null) {
        upper.counts = new int[upper.items.length];
        System.arraycopy(counts, from, upper.counts, 0, upper.size);
      }
      Arrays.fill(items, from, size, null);
      size = from;
      return upper;
    }

    public void write(ByteSink out) {
      out.putInt(size);
      for (int i = 0; i < size; i++) {
        out.putInt(count(i));
        of.write(item(i), out);
      }
    }

    public static <T> Page<T> read(Items<T> of, ByteBuffer in) {
      int size = in.getInt();
      Page<T> page = new Page<>(of, Math.max(1, size));
      for (int i = 0; i < size; i++) {
        int count = in.getInt();
        page.insert(i, of.read(in), count);
      }
      return page;
    }
  }

  /** A page and where it is; none of its items is before `first`. */
  private static final class Slot<T> {
    T first;
    Page<T> page;
    long number = INSIDE;
    boolean changed;
  }

  /** Is told items in order, each with how often it is there; says whether to go on. */
  public interface Each<T> {
    boolean take(T item, int times);
  }

  private final Items<T> of;
  private final ArrayList<Slot<T>> slots = new ArrayList<>(1);
  private ArrayList<Long> gone;
  private Pages pages;
  private int positive;

  public SortedBag(Items<T> of) {
    this.of = of;
  }

  public boolean isEmpty() {
    return slots.isEmpty();
  }

  /** How many different items there are. */
  public int different() {
    return positive;
  }

  /** How many items, or pages that are elsewhere, it holds. */
  public int rows() {
    return slots.size() == 1 && slots.get(0).number == INSIDE
        ? slots.get(0).page.size
        : slots.size();
  }

  public void add(T item, int times) {
    if (times == 0) return;
    if (slots.isEmpty()) {
      Slot<T> only = new Slot<>();
      only.page = new Page<>(of, 1);
      slots.add(only);
    }
    int number = slot(item);
    Slot<T> slot = slots.get(number);
    Page<T> page = page(slot);
    slot.changed = true;
    int place = page.find(item), before = place < 0 ? 0 : page.count(place), after = before + times;
    if (before <= 0 && after > 0) positive++;
    if (before > 0 && after <= 0) positive--;
    if (place < 0) page.insert(-place - 1, item, after);
    else if (after == 0) page.delete(place);
    else page.count(place, after);
    if (page.size > MOST) split(number, slot);
    else if (page.size == 0) drop(number, slot);
  }

  private int slot(T item) {
    int low = 1, high = slots.size() - 1;
    while (low <= high) {
      int middle = (low + high) >>> 1;
      if (of.compare(slots.get(middle).first, item) <= 0) low = middle + 1;
      else high = middle - 1;
    }
    return low - 1;
  }

  private void split(int number, Slot<T> slot) {
    Slot<T> upper = new Slot<>();
    upper.page = slot.page.half();
    upper.first = upper.page.item(0);
    upper.changed = true;
    if (number == 0) slot.first = slot.page.item(0);
    slots.add(number + 1, upper);
  }

  private void drop(int number, Slot<T> slot) {
    slots.remove(number);
    if (slot.number == INSIDE) return;
    if (gone == null) gone = new ArrayList<>();
    gone.add(slot.number);
  }

  @SuppressWarnings("unchecked")
  private Page<T> page(Slot<T> slot) {
    if (slot.page == null) slot.page = (Page<T>) pages.get(slot.number);
    return slot.page;
  }

  /** The items that are there, in order; those taken back before they came are left out. */
  public void each(Each<T> to) {
    for (Slot<T> slot : slots) {
      Page<T> page = page(slot);
      for (int i = 0; i < page.size; i++)
        if (page.count(i) > 0 && !to.take(page.item(i), page.count(i))) return;
    }
  }

  /** The first of them, or null. */
  public T first() {
    for (Slot<T> slot : slots) {
      Page<T> page = page(slot);
      for (int i = 0; i < page.size; i++) if (page.count(i) > 0) return page.item(i);
    }
    return null;
  }

  /** The last item, whatever its count; of a bag that is not empty. */
  public T last() {
    Page<T> page = page(slots.get(slots.size() - 1));
    return page.item(page.size - 1);
  }

  /** Takes the last item away, all its times. */
  public void dropLast() {
    int number = slots.size() - 1;
    Slot<T> slot = slots.get(number);
    Page<T> page = page(slot);
    slot.changed = true;
    if (page.count(page.size - 1) > 0) positive--;
    page.delete(page.size - 1);
    if (page.size == 0) drop(number, slot);
  }

  public void addAll(SortedBag<T> other) {
    for (Slot<T> slot : other.slots) {
      Page<T> page = other.page(slot);
      for (int i = 0; i < page.size; i++) add(page.item(i), page.count(i));
    }
  }

  /** Says where the pages are; before a bag that was read is used. */
  public void attach(Pages to) {
    pages = to;
  }

  /** Puts the pages that have changed where they belong; before the bag is written. */
  public void save(Pages to) {
    pages = to;
    if (gone != null) {
      gone.forEach(to::remove);
      gone = null;
    }
    if (slots.size() == 1 && slots.get(0).number == INSIDE) return;
    for (Slot<T> slot : slots) {
      if (!slot.changed && slot.number != INSIDE) continue;
      if (slot.number == INSIDE) slot.number = to.number();
      to.put(slot.number, slot.page);
      slot.changed = false;
    }
  }

  public void write(ByteSink out) {
    out.putInt(positive).putInt(slots.size());
    for (int i = 0; i < slots.size(); i++) {
      Slot<T> slot = slots.get(i);
      out.putLong(slot.number);
      if (slot.number == INSIDE) slot.page.write(out);
      if (i > 0) of.write(slot.first, out);
    }
  }

  public static <T> SortedBag<T> read(Items<T> of, ByteBuffer in) {
    SortedBag<T> bag = new SortedBag<>(of);
    bag.positive = in.getInt();
    for (int i = 0, size = in.getInt(); i < size; i++) {
      Slot<T> slot = new Slot<>();
      slot.number = in.getLong();
      if (slot.number == INSIDE) slot.page = Page.read(of, in);
      if (i > 0) slot.first = of.read(in);
      bag.slots.add(slot);
    }
    return bag;
  }
}
