package headrace.kernel.operators;

import headrace.kernel.aggregates.Declared;
import java.util.List;

/**
 * What every operator is told beside its options: how its rows and its results look.
 *
 * @param by the columns of the key
 * @param time the column of the event time, or null where rows have none
 * @param columns those of the user, which come first in the rows; the inputs of aggregates follow
 * @param aggregates what is computed of the rows; of most operators nothing
 * @param output the columns of the results, as DDL
 * @param unique the columns that tell results apart; null where nothing is known
 * @param changes whether results say in their last column if they come or are taken back
 * @param view whether what comes of it is written as a view
 */
public record Layout(
    List<String> by,
    String time,
    List<String> columns,
    List<Declared> aggregates,
    String output,
    List<String> unique,
    boolean changes,
    boolean view) {}
