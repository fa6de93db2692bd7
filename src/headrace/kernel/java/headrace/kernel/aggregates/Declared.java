package headrace.kernel.aggregates;

import java.io.Serializable;
import java.util.List;

/**
 * An aggregate as operators/aggregate.py declares it; an option that its kind does not have is
 * null.
 *
 * @param input the number of the column that it reads among the inputs of the aggregates, or -1
 * @param by likewise that of the column that says which value is meant
 * @param type that of the result, as DDL
 * @param inputType that of the input; null where there is none
 * @param byType likewise
 * @param takenBack whether rows that were taken in may be taken out again
 */
public record Declared(
    String name,
    String kind,
    int input,
    int by,
    String type,
    String inputType,
    String byType,
    boolean takenBack,
    Integer ties,
    Integer most,
    Integer lgK,
    Double q,
    Integer k,
    Integer capacity,
    List<String> of,
    Double error,
    Double confidence)
    implements Serializable {}
