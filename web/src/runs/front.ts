/** The Pareto front of runs: those that no other is at least as good as in both figures, and better in one. */

export type Better = "less" | "more";

/** Returns the places of the points on the front, from the least `x` up. */
export function frontOf(points: readonly { x: number; y: number }[], better: [Better, Better]): number[] {
  const [across, up] = better.map((each) => (each === "less" ? 1 : -1)) as [number, number];
  const costs = points.map(({ x, y }, place) => ({ first: across * x, second: up * y, place }));
  costs.sort((one, other) => one.first - other.first || one.second - other.second);
  let [best, at] = [Number.POSITIVE_INFINITY, Number.NaN];
  const front: number[] = [];
  for (const { first, second, place } of costs) {
    if (second < best) {
      [best, at] = [second, first];
    }
    if (second === best && first === at) {
      front.push(place);
    }
  }
  return better[0] === "less" ? front : front.reverse();
}
