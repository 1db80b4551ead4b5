#include "models/ranking.hpp"

#include <cmath>
#include <numeric>

#include "bindings/powers.hpp"

namespace mm {

// Computes levels, true order and 1/N of a query, whose candidates are the rows from `first` to `last`.
static void take_query(RankingData& data, int64_t first, int64_t last) {
  const double* grade = data.grade.data() + first;
  const int n = static_cast<int>(last - first);
  int32_t* order = data.truth.data() + first;
  std::iota(order, order + n, 0);
  std::stable_sort(order, order + n, [&](int32_t a, int32_t b) { return grade[a] > grade[b]; });
  int32_t higher = 0, level = 0;
  double total = 0, sum = 0, above = 0;  // above: sum over the higher grades
  for (int k = 0; k < n; ++k) {
    if (k > 0 && grade[order[k]] != grade[order[k - 1]]) higher = k, above = sum;
    data.higher[first + order[k]] = higher;
    total += above - higher * grade[order[k]];
    sum += grade[order[k]];
  }
  for (int k = n - 1; k >= 0; --k) {
    if (k < n - 1 && grade[order[k]] != grade[order[k + 1]]) ++level;
    data.level[first + order[k]] = level;
  }
  data.unit.push_back(total > 0 ? 1 / total : 0);
}

static RankingData ranking_data(const Features& rows, Array1<int64_t> first, Array1<double> grades) {
  check(size(grades) == rows.size(), "rows and grades do not fit");
  check_offsets(first, rows.size(), EmptyRanges::allowed, "queries of rows");
  RankingData data{&rows, to_vector(first), to_vector(grades)};
  for (double grade : data.grade) check(std::isfinite(grade), "a grade must be finite");
  for (auto* kept : {&data.level, &data.higher, &data.truth}) kept->resize(data.grade.size());
  for (size_t i = 0; i + 1 < first.size(); ++i) take_query(data, data.first[i], data.first[i + 1]);
  return data;
}

static void bind_ranking(nb::module_& m) {
  nb::class_<RankingData> kind(m, "RankingData");
  kind.def(
      "__init__",
      [](RankingData* self, const Features& rows, Array1<int64_t> first, Array1<double> grades) {
        new (self) RankingData(ranking_data(rows, first, grades));
      },
      nb::keep_alive<1, 2>());
  bind_powers<Ranking>(kind);
}

static const Bindings ranking_bindings(&bind_ranking);

}  // namespace mm
