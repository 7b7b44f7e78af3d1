#!/usr/bin/env python3
"""The placement problem of a plan.json, solved by a general MIP solver: the peers of `lazytrain plan`.

    solve_mip.py PLAN.json --solver scip|highs --form plain|suffix [--time-limit 60]

plain is the source's formulation: one transfer variable for every boundary, window and pool. suffix replaces these by
running sums and one exposure variable a pool (for every k, what is offloaded at boundaries >= k fits the free windows
>= k). Prints one JSON line {solver, form, status, objective_ms, bound_ms, seconds}: seconds include building the model.
"""
import argparse
import json
import sys
import time

POOLS = ("d2h", "h2d", "nvme_write", "nvme_read")


class Problem:
    """The arrays of plan.json's `problem`, in milliseconds and units of one activation."""

    def __init__(self, path):
        p = json.load(open(path))["problem"]
        self.n = len(p["recompute_ms"])
        self.unit = float(max(p["boundary_bytes"]))
        self.size = [b / self.unit for b in p["boundary_bytes"]]
        self.budget = [p["budget_bytes"][t] / self.unit for t in ("gpu", "cpu", "nvme")]
        self.time = p["recompute_ms"]
        self.segment = p["max_segment"]
        self.tiebreak, self.penalty = p["tiebreak_ms"], p["penalty_ms"]
        self.unit_ms = {pool: self.unit / p["bytes_per_s"][pool] * 1e3 for pool in POOLS}
        aware = {pool: p["overlap_aware_pcie" if pool in ("d2h", "h2d") else "overlap_aware_nvme"] for pool in POOLS}
        self.free, self.overflow = {}, 0.0
        for pool in POOLS:
            mandatory = p["mandatory_bytes"].get(pool, [0] * self.n)
            pairs = list(zip(p["window_bytes"][pool], mandatory)) if aware[pool] else [(0, 0)] * self.n
            self.free[pool] = [max(c - m, 0) / self.unit for c, m in pairs]
            self.overflow += sum(max(m - c, 0) for c, m in pairs) / p["bytes_per_s"][pool] * 1e3


class Scip:
    def __init__(self):
        from pyscipopt import Model
        self.model = Model()
        self.model.hideOutput()
        self.cost = []

    def var(self, cost, upper=None, integer=False):
        v = self.model.addVar(vtype="B" if integer else "C", lb=0, ub=upper)
        if cost:
            self.cost.append(cost * v)
        return v

    def row(self, terms, lower, upper):
        from pyscipopt import quicksum
        total = quicksum(c * v for v, c in terms)
        if lower == upper:
            self.model.addCons(total == upper)
        else:
            self.model.addCons(total <= upper)

    def solve(self, limit):
        from pyscipopt import quicksum
        self.model.setObjective(quicksum(self.cost))
        self.model.setParam("limits/time", limit)
        self.model.setParam("limits/gap", 0.0)
        self.model.optimize()
        found = self.model.getNSols() > 0
        return self.model.getStatus(), self.model.getObjVal() if found else None, self.model.getDualbound()


class Highs:
    def __init__(self):
        import highspy
        import numpy
        self.highspy, self.numpy = highspy, numpy
        self.costs, self.uppers, self.integers, self.rows = [], [], [], []

    def var(self, cost, upper=None, integer=False):
        self.costs.append(cost)
        self.uppers.append(self.highspy.kHighsInf if upper is None else upper)
        self.integers.append(integer)
        return len(self.costs) - 1

    def row(self, terms, lower, upper):
        self.rows.append((terms, -self.highspy.kHighsInf if lower is None else lower, upper))

    def solve(self, limit):
        np, h = self.numpy, self.highspy.Highs()
        h.setOptionValue("output_flag", False)
        lp = self.highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.rows)
        lp.col_cost_, lp.col_lower_ = np.array(self.costs, float), np.zeros(len(self.costs))
        lp.col_upper_ = np.array(self.uppers, float)
        lp.row_lower_ = np.array([r[1] for r in self.rows], float)
        lp.row_upper_ = np.array([r[2] for r in self.rows], float)
        lp.a_matrix_.format_ = self.highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0] + [len(r[0]) for r in self.rows])
        lp.a_matrix_.index_ = np.array([v for r in self.rows for v, _ in r[0]])
        lp.a_matrix_.value_ = np.array([c for r in self.rows for _, c in r[0]], float)
        kinds = self.highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if i else kinds.kContinuous for i in self.integers]
        h.passModel(lp)
        for option, value in (("mip_rel_gap", 0.0), ("mip_abs_gap", 0.0), ("time_limit", float(limit))):
            h.setOptionValue(option, value)
        h.run()
        info = h.getInfo()
        status = h.modelStatusToString(h.getModelStatus()).lower()
        found = info.primal_solution_status == 2
        return status, info.objective_function_value if found else None, info.mip_dual_bound


def add_placement(p, m):
    """Places and edges of the path; returns place[i] = (gpu, cpu, nvme)."""
    place = []
    for i in range(p.n + 1):
        ends = i in (0, p.n)
        place.append([m.var(p.penalty + (p.tiebreak if t == 2 else 0), 0 if ends and t else 1, True) for t in range(3)])
    into, out = [[] for _ in place], [[] for _ in place]
    for s in range(p.n):
        for e in range(s + 1, min(s + p.segment, p.n) + 1):
            edge = m.var(sum(p.time[s:e - 1]), 1, True)
            out[s].append(edge)
            into[e].append(edge)
    for i, places in enumerate(place):
        for edges in ([into[i]] if i else []) + ([out[i]] if i < p.n else []):
            m.row([(v, 1) for v in edges] + [(v, -1) for v in places], 0, 0)
    for i in (0, p.n):
        m.row([(place[i][0], 1)], 1, 1)
    for t in range(3):
        m.row([(place[i][t], p.size[i]) for i in range(p.n + 1)], None, p.budget[t])
    return place


def users(pool):
    return (1, 2) if pool in ("d2h", "h2d") else (2,)


def add_plain(p, m, place):
    for pool in POOLS:
        window = [[] for _ in range(p.n)]
        for i in range(p.n):
            flow = [m.var(0) for _ in range(i, p.n)]
            m.row([(v, 1) for v in flow] + [(place[i][t], -p.size[i]) for t in users(pool)], 0, 0)
            for w, v in enumerate(flow, i):
                window[w].append(v)
        for w in range(p.n):
            exposed = m.var(p.unit_ms[pool])
            m.row([(v, 1) for v in window[w]] + [(exposed, -1)], None, p.free[pool][w])


def add_suffix(p, m, place):
    for pool in POOLS:
        exposed, free, after = m.var(p.unit_ms[pool]), 0.0, None
        for k in reversed(range(p.n)):
            load = m.var(0)
            m.row([(load, 1)] + ([(after, -1)] if after is not None else [])
                  + [(place[k][t], -p.size[k]) for t in users(pool)], 0, 0)
            free += p.free[pool][k]
            m.row([(load, 1), (exposed, -1)], None, free)
            after = load


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("plan")
    parser.add_argument("--solver", choices=["scip", "highs"], required=True)
    parser.add_argument("--form", choices=["plain", "suffix"], required=True)
    parser.add_argument("--time-limit", type=float, default=60)
    args = parser.parse_args()
    p = Problem(args.plan)
    __import__("pyscipopt" if args.solver == "scip" else "highspy")  # the import is not the solver's time
    begin = time.monotonic()
    m = Scip() if args.solver == "scip" else Highs()
    place = add_placement(p, m)
    (add_plain if args.form == "plain" else add_suffix)(p, m, place)
    status, objective, bound = m.solve(args.time_limit)
    seconds = time.monotonic() - begin
    print(json.dumps({"solver": args.solver, "form": args.form, "status": status,
                      "objective_ms": None if objective is None else objective + p.overflow,
                      "bound_ms": bound + p.overflow, "seconds": seconds}))


if __name__ == "__main__":
    sys.exit(main())
