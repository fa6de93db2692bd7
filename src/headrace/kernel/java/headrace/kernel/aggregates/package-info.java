/**
 * What is gathered of the rows of a group: sums, counts, extremes, sketches. A new aggregate is a
 * subclass of `Aggregate` here, one a file, and a case of `Functions`.
 */
package headrace.kernel.aggregates;
