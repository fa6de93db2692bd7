package headrace.kernel.operators;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import headrace.kernel.aggregates.Declared;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Prints what the kernel knows of its operators, as JSON, and then of each argument, which is a
 * spec, its name or why it does not fit.
 */
public final class OperatorSpecs {
  private static final Map<Type, String> WORDS =
      Map.of(
          String.class, "text",
          long.class, "whole number",
          int.class, "whole number",
          Integer.class, "whole number",
          Double.class, "number",
          boolean.class, "truth",
          Boolean.class, "truth",
          Declared.class, "aggregate");

  private OperatorSpecs() {}

  public static void main(String[] specs) throws JsonProcessingException {
    Map<String, Object> operators = new LinkedHashMap<>();
    for (OperatorKind<?> kind : Operators.all()) {
      operators.put(kind.name(), Map.of("form", kind.form(), "options", options(kind.options())));
    }
    Map<String, Object> all =
        Map.of(
            "operators", operators,
            "layout", options(Layout.class),
            "aggregate", options(Declared.class));
    System.out.println(new ObjectMapper().writeValueAsString(all));
    for (String spec : specs) {
      try {
        System.out.println(Spec.of(spec).kind().name());
      } catch (IllegalArgumentException e) {
        System.out.println(e.getMessage());
      }
    }
  }

  private static Map<String, String> options(Class<? extends Record> of) {
    Map<String, String> types = new LinkedHashMap<>();
    for (RecordComponent one : of.getRecordComponents()) {
      types.put(Spec.name(one.getName()), word(one.getGenericType()));
    }
    return types;
  }

  private static String word(Type type) {
    if (type instanceof ParameterizedType list) {
      return "list of " + word(list.getActualTypeArguments()[0]);
    }
    return WORDS.get(type);
  }
}
