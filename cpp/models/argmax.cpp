#include "models/argmax.hpp"

#include <stdexcept>
#include <string>

namespace mm {

double Argmax::solve(const PairwiseView& p, const ArgmaxOptions& options, bool prove, int32_t* y,
                     double& ceiling) {
  switch (options.method) {
    case Inference::outside: {
      const double bound = options.solver(p, y), value = p.value(y);
      ceiling = std::max(bound, value);
      return value;
    }
    case Inference::tree:
      return ceiling = product_.solve(p, y);
    case Inference::cut: {
      const int l = GraphCut::obstacle(p);
      if (l >= 0)
        throw std::invalid_argument("inference='cut': the link between nodes " +
                                    std::to_string(p.graph->a[l]) + " and " + std::to_string(p.graph->b[l]) +
                                    " does not attract (theta(0,0) + theta(1,1) < theta(0,1) + theta(1,0)) "
                                    "at these weights; use inference='auto', or nonnegative weights");
      return cut_.solve(p, y, ceiling);
    }
    case Inference::messages:
      return messages_.solve(p, options.iterations, y, ceiling);
    case Inference::roof:
      return solve_rest(p, y, ceiling, [this](const PairwiseView& rest, double& top) {
        return roof_.solve(rest, part_.data(), top);
      });
    default:
      break;
  }
  if (p.graph->forest) return ceiling = product_.solve(p, y);
  if (!p.graph->binary) return solve_loops(p, options.iterations, y, ceiling);
  return solve_binary(p, options.iterations, prove, y, ceiling);
}

}  // namespace mm
