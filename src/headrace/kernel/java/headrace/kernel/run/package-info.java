/**
 * The run and the row at hand: by which name a query is known in this process, which record the row
 * at hand was made of, and the end of this process when Python's has ended. Every other room may
 * ask here.
 */
package headrace.kernel.run;
