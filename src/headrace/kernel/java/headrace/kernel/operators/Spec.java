package headrace.kernel.operators;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.PropertyNamingStrategies.SnakeCaseStrategy;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * What Python tells of an operator (kernel/operator.py): which one it is, how its rows look, and
 * its options. What does not fit is an error that names the operator and the option: an unknown
 * one, one that is missing or of another type, another form of its state.
 */
public record Spec(OperatorKind<?> kind, Layout layout, OperatorOptions options) {
  private static final ObjectMapper JSON =
      JsonMapper.builder()
          .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
          .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
          .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
          .build();

  public static Spec of(String text) {
    try {
      JsonNode spec = JSON.readTree(text);
      OperatorKind<?> kind = Operators.of(spec.path("kind").asText());
      if (spec.path("form").asInt() != kind.form()) {
        throw new IllegalArgumentException(
            "the operator `%s` writes its state in form %d, and not in form %s"
                .formatted(kind.name(), kind.form(), spec.path("form")));
      }
      Layout layout = read(kind.name(), spec.path("layout"), Layout.class);
      return new Spec(kind, layout, read(kind.name(), spec.path("options"), kind.options()));
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(e);
    }
  }

  private static <R extends Record> R read(String operator, JsonNode from, Class<R> as)
      throws JsonProcessingException {
    Set<String> known = names(as);
    for (String option : known) {
      if (!from.has(option)) {
        throw new IllegalArgumentException(
            "the operator `" + operator + "` needs the option `" + option + "`");
      }
    }
    for (Iterator<String> given = from.fieldNames(); given.hasNext(); ) {
      String option = given.next();
      if (!known.contains(option)) {
        throw new IllegalArgumentException(
            "the operator `" + operator + "` has no option `" + option + "`");
      }
    }
    try {
      return JSON.treeToValue(from, as);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(
          "the operator `" + operator + "` cannot use an option: " + e.getOriginalMessage(), e);
    }
  }

  private static Set<String> names(Class<? extends Record> of) {
    return Arrays.stream(of.getRecordComponents())
        .map(component -> name(component.getName()))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** What Python calls the component of a record. */
  static String name(String component) {
    return SnakeCaseStrategy.INSTANCE.translate(component);
  }
}
