package headrace.kernel.operators;

import static java.nio.charset.StandardCharsets.UTF_8;

import headrace.kernel.state.ByteSink;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/**
 * The structures of the kernel's operators beside plain ones of Java's, under the same random
 * operations.
 *
 * <p>Arguments: a seed, and how many rounds. Fails at the first difference.
 */
public final class OperatorStructures {
  private final Random dice;

  private OperatorStructures(long seed) {
    dice = new Random(seed);
  }

  public static void main(String[] arguments) {
    OperatorStructures checked = new OperatorStructures(Long.parseLong(arguments[0]));
    for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
      checked.packets();
      checked.events();
    }
    System.out.println("equal");
  }

  private void events() {
    Events events = new Events();
    List<String> known = new ArrayList<>();
    byte[] stored = null;
    List<byte[]> changes = new ArrayList<>();
    int forgets = dice.nextInt(3);
    for (int step = 0, steps = dice.nextInt(600); step < steps; step++) {
      int what = dice.nextInt(100);
      if (what < 70 || known.isEmpty()) {
        byte[] row = bytes(50);
        Events.Event event =
            new Events.Event(step, row, dice.nextBoolean() ? null : "origin " + step);
        events.add(event);
        known.add(described(event));
      } else if (what < 85) {
        int place = dice.nextInt(known.size());
        events.tell(place);
        known.set(place, described(events.get(place)));
      } else if (what < 85 + forgets) {
        long over = dice.nextInt(step);
        same(
            events.removeIf(one -> one.at < over),
            known.removeIf(one -> Long.parseLong(one.substring(0, one.indexOf(' '))) < over),
            "whether events were forgotten");
      } else if (what > 90) {
        ByteSink out = new ByteSink(16);
        if (stored == null || !events.isBrief()) {
          events.write(out);
          stored = out.bytes();
          changes.clear();
        } else {
          events.writeChange(out);
          changes.add(out.bytes());
        }
        Events again = Events.read(ByteBuffer.wrap(stored));
        for (byte[] change : changes) again.readChange(ByteBuffer.wrap(change));
        List<String> found = new ArrayList<>();
        again.forEach(event -> found.add(described(event)));
        same(found, known, "the events that were written");
        if (dice.nextInt(5) == 0) events = again;
        same(events.isBrief(), known.size() >= 64, "that of many only what has changed is written");
      }
    }
  }

  private static String described(Events.Event event) {
    return event.at + " " + new String(event.row, UTF_8) + " " + event.origin + " " + event.told;
  }

  private void packets() {
    int shards = 1 + dice.nextInt(5), largest = dice.nextBoolean() ? 100 : 200_000;
    List<byte[]> sent = new ArrayList<>();
    for (int i = 0, count = dice.nextInt(largest == 100 ? 5000 : 10); i < count; i++) {
      byte[] body = new byte[dice.nextInt(largest)];
      dice.nextBytes(body);
      sent.add(
          new ByteSink(16).put(Message.PARTIAL).putInt(dice.nextInt(shards)).put(body).bytes());
    }
    Map<Integer, List<String>> wanted = new HashMap<>(), found = new HashMap<>();
    for (byte[] one : sent)
      wanted.computeIfAbsent(Message.shard(one), s -> new ArrayList<>()).add(Arrays.toString(one));
    int packets = 0;
    for (MessagePackets packed = new MessagePackets(sent.iterator()); packed.hasNext(); packets++) {
      byte[] packet = packed.next();
      same(packet[0], Message.PACKET, "the kind of a packet");
      List<String> to = found.computeIfAbsent(Message.shard(packet), s -> new ArrayList<>());
      new MessagePackets.Opened(packet)
          .forEachRemaining(
              one ->
                  to.add(
                      Arrays.toString(
                          Arrays.copyOfRange(one.array(), one.position(), one.limit()))));
    }
    same(found, wanted, "the messages of the shards");
    same(
        largest > 100 || packets <= shards + sent.size() / 400, true, "that many go in one packet");
  }

  private static void same(Object found, Object wanted, String what) {
    if (!found.equals(wanted))
      throw new AssertionError(what + ": found " + found + ", wanted " + wanted);
  }

  private byte[] bytes(int different) {
    return ("key " + dice.nextInt(different)).getBytes(UTF_8);
  }
}
