package headrace.kernel.state;

import java.nio.ByteBuffer;

/**
 * The pages of the large bags of a shard, beside the rest of its state: numbered, and one of the
 * marks is the next number.
 */
public final class PageStore implements SortedBag.Pages {
  private static final long PAGES = 1;
  private final ShardStore<Object> store;
  private final int mark;

  public PageStore(ShardStore<Object> store, int mark) {
    this.store = store;
    this.mark = mark;
  }

  private static Key key(long number) {
    return new Key(ByteBuffer.allocate(Long.BYTES).putLong(number).array());
  }

  @Override
  public long number() {
    return store.marks[mark]++;
  }

  @Override
  public SortedBag.Page<?> get(long number) {
    return (SortedBag.Page<?>) store.get(PAGES, key(number));
  }

  @Override
  public void put(long number, SortedBag.Page<?> page) {
    store.put(PAGES, key(number), page);
  }

  @Override
  public void remove(long number) {
    store.remove(PAGES, key(number));
  }
}
