package headrace.kernel.decode;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;

/** Whether bytes are valid UTF-8; asked only of records that are not plain ASCII. */
final class Utf8 {
  private Utf8() {}

  static void check(byte[] bytes) throws JsonDecoder.Refused {
    CharsetDecoder decoder =
        StandardCharsets.UTF_8
            .newDecoder()
            .onMalformedInput(CodingErrorAction.REPORT)
            .onUnmappableCharacter(CodingErrorAction.REPORT);
    try {
      decoder.decode(ByteBuffer.wrap(bytes));
    } catch (CharacterCodingException e) {
      throw new JsonDecoder.Refused("invalid UTF-8");
    }
  }
}
