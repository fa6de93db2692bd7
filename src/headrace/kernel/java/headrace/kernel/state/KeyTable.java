package headrace.kernel.state;

import java.util.Arrays;
import java.util.ConcurrentModificationException;
import java.util.function.BiConsumer;

/**
 * Values by key, and which of them have changed since they were last written.
 *
 * <p>A hash table without an object an entry, since a store holds millions of them. A key that was
 * removed keeps its place, without a value, at least until what has changed is written.
 */
final class KeyTable<V> {
  private static final int LEAST = 8;

  private Key[] keys = new Key[LEAST];
  private Object[] values = new Object[LEAST];
  private int[] hashes = new int[LEAST];
  private boolean[] changed = new boolean[LEAST];
  private int used;
  private int size;
  private int changes;

  /** How many values there are. */
  int size() {
    return size;
  }

  /** How many keys have changed. */
  int changes() {
    return changes;
  }

  V get(Key key) {
    int place = place(key);
    return keys[place] == null ? null : value(place);
  }

  /** Sets a value, or takes it away with null, as it is written already. */
  void load(Key key, V value) {
    int place = claim(key);
    size += (value == null ? 0 : 1) - (values[place] == null ? 0 : 1);
    values[place] = value;
  }

  /** Sets a value; whether there was none. */
  boolean put(Key key, V value) {
    int place = claim(key);
    boolean isNew = values[place] == null;
    if (isNew) size++;
    values[place] = value;
    change(place);
    return isNew;
  }

  /** Takes a value away; whether there was one. */
  boolean remove(Key key) {
    int place = place(key);
    if (keys[place] == null || values[place] == null) return false;
    size--;
    values[place] = null;
    change(place);
    return true;
  }

  private void change(int place) {
    if (changed[place]) return;
    changed[place] = true;
    changes++;
  }

  void each(BiConsumer<Key, V> to) {
    Key[] all = keys;
    for (int i = 0; i < all.length; i++) {
      if (all[i] == null || values[i] == null) continue;
      to.accept(all[i], value(i));
      if (all != keys) throw new ConcurrentModificationException();
    }
  }

  /** The keys that have changed with their values; null for one that was removed. */
  void eachChange(BiConsumer<Key, V> to) {
    for (int i = 0; i < keys.length; i++) if (changed[i]) to.accept(keys[i], value(i));
  }

  /** What has changed is written. */
  void written() {
    if (changes == 0) return;
    Arrays.fill(changed, false);
    changes = 0;
    if (4 * (used - size) > keys.length) resize();
  }

  @SuppressWarnings("unchecked")
  private V value(int place) {
    return (V) values[place];
  }

  /** Where a key is, or would be. */
  private int place(Key key) {
    int mask = keys.length - 1, hash = key.hash;
    // All keys of a table share some bits of their hash, by which they came to it.
    for (int place = ((hash * 0x9E3779B9) >>> 7) & mask; ; place = (place + 1) & mask) {
      if (keys[place] == null || (hashes[place] == hash && keys[place].equals(key))) return place;
    }
  }

  private int claim(Key key) {
    int place = place(key);
    if (keys[place] != null) return place;
    if (3 * (used + 1) > 2 * keys.length) {
      resize();
      place = place(key);
    }
    used++;
    keys[place] = key;
    hashes[place] = key.hash;
    return place;
  }

  /** Moves what has a value, or has changed, to a table with room for as much again. */
  private void resize() {
    int kept = 0;
    for (int i = 0; i < keys.length; i++) if (values[i] != null || changed[i]) kept++;
    int length = LEAST;
    while (length <= 2 * kept) length *= 2;
    Key[] keysBefore = keys;
    Object[] valuesBefore = values;
    boolean[] changedBefore = changed;
    keys = new Key[length];
    values = new Object[length];
    hashes = new int[length];
    changed = new boolean[length];
    for (int i = 0; i < keysBefore.length; i++) {
      if (valuesBefore[i] == null && !changedBefore[i]) continue;
      int place = place(keysBefore[i]);
      keys[place] = keysBefore[i];
      values[place] = valuesBefore[i];
      hashes[place] = keysBefore[i].hash;
      changed[place] = changedBefore[i];
    }
    used = kept;
  }
}
