#include "features.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/common.hpp"
#include "runtime/pages.hpp"
#include "runtime/threads.hpp"
#include "simd.hpp"

namespace mm {
namespace {

// Dense data with at most this share of nonzeros get index lists. With a larger share, loops over lists are slower than
// loops over dense rows; with a smaller one, fewer data sets gain.
constexpr double sparse_share = 0.35;

constexpr const char* unfit = "the index pointers of a sparse matrix do not fit its data";

// x * probe * 0 is NaN for a NaN, for an infinity, and for numbers above 1e150, whose squares would be infinite.
template <class T>
constexpr T probe = sizeof(T) == 8 ? static_cast<T>(1e158) : 1;

// The numbers of an array, read in place by the buffer protocol. A cast to `nb::ndarray` would take as long as
// reading a short example, and there are many examples. An unaligned array has another format and is refused.
template <class T>
class Numbers {
 public:
  Numbers(nb::handle array, int dimensions) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT)) throw nb::python_error();
    if (view_.ndim == dimensions && view_.itemsize == sizeof(T) && is_ours(view_.format)) return;
    PyBuffer_Release(&view_);
    throw nb::type_error(
        "an array has another type or number of dimensions than the first, or is not aligned");
  }
  ~Numbers() { PyBuffer_Release(&view_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  const T* data() const { return static_cast<const T*>(view_.buf); }
  int64_t shape(int axis) const { return view_.shape[axis]; }
  int64_t size() const { return view_.shape[0]; }  // for one dimension

 private:
  Py_buffer view_;
  static bool is_ours(const char* format) {
    const char* known = std::is_same_v<T, double> ? "d" : std::is_same_v<T, float> ? "f" : "il";
    return format && format[0] != 0 && format[1] == 0 && std::strchr(known, format[0]);
  }
};

struct Checked {
  Features features;
  int64_t bad_row = -1;  // first row with a number that is not finite or too large
  bool sorted = true;    // sparse: indices of every row strictly increasing
  bool in_range = true;  // sparse: 0 <= index < columns
};

Checked* empty_rows(Kind kind, int64_t columns, double bias) {
  auto* c = new Checked;
  c->features.kind = kind;
  c->features.columns = columns;
  c->features.bias = bias;
  return c;
}

template <class T>
Unwritten<T>& owned_of(Features& f) {
  if constexpr (sizeof(T) == 4)
    return f.owned_values;
  else
    return f.owned_doubles;
}

// |x|^2, or NaN if a number of x is not finite or too large. It uses eight independent sums. A number that is too large
// has a square above `safe`.
template <class T>
double checked_square(const T* x, int32_t length) {
  constexpr int width = 8;
  constexpr double safe = 1e300;
  double squares[width] = {};
  int32_t j = 0;
  for (; j + width <= length; j += width)
    for (int l = 0; l < width; ++l) squares[l] += static_cast<double>(x[j + l]) * x[j + l];
  for (int l = 0; j + l < length; ++l) squares[l] += static_cast<double>(x[j + l]) * x[j + l];
  double sum = 0;
  for (const double square : squares) sum += square;
  if (sum < safe) return sum;
  const bool faulty = std::any_of(x, x + length, [](T value) { return value * probe<T> * 0 != 0; });
  return faulty ? std::numeric_limits<double>::quiet_NaN() : sum;
}

// A bit for each of at most 64 numbers, set if the number is not zero.
template <class T>
uint64_t nonzeros(const T* x, int n) {
  constexpr int lanes = Vector<T>::lanes;
  uint64_t bits = 0;
  int j = 0;
  for (; j + lanes <= n; j += lanes)
    bits |= static_cast<uint64_t>(lanes_different(load<T>(x + j), broadcast(T(0)))) << j;
  for (; j < n; ++j) bits |= static_cast<uint64_t>(x[j] != 0) << j;
  return bits;
}

// Whether all numbers are zero or one.
template <class T>
bool all_ones(const T* x, int64_t n) {
  using Whole =
      std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;  // as long as a number, for vector instructions
  Whole others = 0;
  for (int64_t j = 0; j < n; ++j) others += x[j] * x[j] != x[j];
  return others == 0;
}

// The findings of a pass over some rows.
struct Seen {
  int64_t bad_row = -1;
  size_t count = 0;  // number of nonzeros
  bool ones = true, lists = true, sorted = true, in_range = true;

  void add(const Seen& next) {
    if (bad_row < 0) bad_row = next.bad_row;
    count += next.count;
    ones &= next.ones, lists &= next.lists, sorted &= next.sorted, in_range &= next.in_range;
  }
};

// Divides rows among threads. The number of threads depends on the amount of numbers and on the usable cores.
class Readers {
 public:
  Readers(int64_t rows, int64_t numbers, int most)
      : rows_(rows),
        threads_(
            static_cast<int>(std::clamp<int64_t>(numbers / worth, 1, std::clamp(most, 1, usable_cores())))) {}

  // Calls look(from, to), which returns its findings, and combines them.
  template <class Look>
  Seen look_over(const Look& look) {
    seen_.assign(threads_, {});
    parallel_parts(rows_, threads_, [&](int64_t from, int64_t to, int k) { seen_[k] = look(from, to); });
    Seen all;
    for (const Seen& part : seen_) all.add(part);
    return all;
  }
  // Calls work(from, to).
  template <class Work>
  void each(const Work& work) const {
    parallel(rows_, threads_, [&](int64_t from, int64_t to, int) { work(from, to); });
  }
  // Calls work(from, to, count) for the parts of `look_over`, with the number of nonzeros in earlier parts.
  template <class Work>
  void each_counted(const Work& work) const {
    std::vector<size_t> before(threads_, 0);
    for (int k = 1; k < threads_; ++k) before[k] = before[k - 1] + seen_[k - 1].count;
    parallel_parts(rows_, threads_, [&](int64_t from, int64_t to, int k) { work(from, to, before[k]); });
  }

 private:
  static constexpr int64_t worth = int64_t(1) << 16;  // numbers per thread; fewer are not worth a thread
  int64_t rows_;
  int threads_;
  std::vector<Seen> seen_;
};

// A bit for each number of dense rows, set if the number is not zero.
class Presence {
 public:
  Presence(int64_t rows, int64_t columns)
      : columns_(columns), words_((columns + per_word - 1) / per_word), bits_(rows * words_) {}

  bool none() const { return bits_.empty(); }
  template <class T>
  size_t note(int64_t row, const T* x) {  // returns the number of nonzeros
    size_t count = 0;
    uint64_t* word = &bits_[row * words_];
    for (int64_t j = 0; j < columns_; j += per_word, ++word) {
      *word = nonzeros(x + j, static_cast<int>(std::min(per_word, columns_ - j)));
      count += static_cast<size_t>(std::popcount(*word));
    }
    return count;
  }
  template <class F>
  void each(int64_t row, F&& f) const {
    const uint64_t* word = &bits_[row * words_];
    for (int64_t from = 0; from < columns_; from += per_word, ++word)
      for (uint64_t left = *word; left != 0; left &= left - 1) f(from + std::countr_zero(left));
  }

 private:
  static constexpr int64_t per_word = 64;
  int64_t columns_, words_;
  Unwritten<uint64_t> bits_;
};

// Lists the columns of the nonzeros of dense rows, and their values if `values` is not null. note(row, first)
// receives the offset of each row's list.
template <class T, class Index, class F>
void list_entries(Features& f, const Presence& present, const Readers& readers, size_t count,
                  Unwritten<Index>& places, Unwritten<T>* values, F&& note) {
  reserve_in_large_pages(places, count), places.resize(count);
  if (values) reserve_in_large_pages(*values, count), values->resize(count);
  readers.each_counted([&](int64_t from, int64_t to, size_t n) {
    for (int64_t r = from; r < to; ++r) {
      RowView& row = f.rows[r];
      const T* x = static_cast<const T*>(row.value);
      const size_t first = n;
      present.each(r, [&](int64_t j) {
        places[n] = static_cast<Index>(j);
        if (values) (*values)[n] = x[j];
        ++n;
      });
      row.length = static_cast<int32_t>(n - first);
      note(row, first);
    }
  });
}

// Checks the numbers, computes the norms, and makes lists of nonzeros if these are few.
template <class T>
void list_nonzeros(Checked& c, bool in_place, int threads) {
  Features& f = c.features;
  const double most = sparse_share * static_cast<double>(f.size() * f.columns);
  // Lists take about as much memory as the data, so rows that stay on a disk get none.
  Presence present(in_place ? 0 : f.size(), f.columns);
  Readers readers(f.size(), f.size() * f.columns, threads);
  f.norms.resize(f.rows.size());
  const Seen seen = readers.look_over([&](int64_t from, int64_t to) {
    Seen own;
    own.lists = !present.none();
    for (int64_t r = from; r < to; ++r) {
      const T* x = static_cast<const T*>(f.rows[r].value);
      const double square = checked_square(x, static_cast<int32_t>(f.columns));
      if (square != square && own.bad_row < 0) own.bad_row = r;
      f.norms[r] = static_cast<float>(square + f.bias * f.bias);
      if (!own.lists) continue;
      own.count += present.note(r, x);
      own.ones = own.ones && all_ones(x, f.columns);
      own.lists = static_cast<double>(own.count) <= most;
    }
    return own;
  });
  c.bad_row = seen.bad_row;
  if (!seen.lists || static_cast<double>(seen.count) > most || c.bad_row >= 0) return;
  if (seen.ones && f.columns <= 256) {
    f.kind = Kind::bytes;
    return list_entries<T>(f, present, readers, seen.count, f.owned_bytes, nullptr,
                           [&](RowView& row, size_t at) { row.value = f.owned_bytes.data() + at; });
  }
  Unwritten<T>* values = seen.ones ? nullptr : &owned_of<T>(f);
  f.kind = seen.ones ? Kind::binary : sizeof(T) == 4 ? Kind::sparse32 : Kind::sparse64;
  list_entries<T>(f, present, readers, seen.count, f.owned, values, [&](RowView& row, size_t at) {
    row.index = f.owned.data() + at;
    row.value = values ? values->data() + at : nullptr;
  });
}

// Lists the rows of all parts; view(part, r) makes the view of a row.
template <class Part, class View>
void list_rows(Unwritten<RowView>& rows, const std::vector<Part>& parts, int threads, const View& view) {
  constexpr int64_t numbers = 8;  // listing a row takes as long as reading this many numbers
  std::vector<int64_t> first;
  first.reserve(parts.size());
  int64_t total = 0;  // reserved at once: growing would take twice the memory
  for (const Part& part : parts) first.push_back(total), total += part.rows;
  reserve_in_large_pages(rows, static_cast<size_t>(total)), rows.resize(static_cast<size_t>(total));
  Readers(static_cast<int64_t>(parts.size()), numbers * total, threads).each([&](int64_t from, int64_t to) {
    for (int64_t k = from; k < to; ++k)
      for (int64_t r = 0; r < parts[k].rows; ++r) rows[first[k] + r] = view(parts[k], r);
  });
}

template <class T>
Checked* dense(nb::list arrays, int64_t columns, double bias, bool in_place, int threads) {
  std::unique_ptr<Checked> c(empty_rows(sizeof(T) == 4 ? Kind::dense32 : Kind::dense64, columns, bias));
  struct Part {
    const T* x;
    int64_t rows;
  };
  std::vector<Part> parts;
  parts.reserve(arrays.size());
  for (nb::handle item : arrays) {
    const Numbers<T> array(item, 2);
    check(array.shape(1) == columns, "an array has another number of columns than the first");
    parts.push_back({array.data(), array.shape(0)});
  }
  nb::gil_scoped_release release;
  list_rows(c->features.rows, parts, threads, [=](const Part& part, int64_t r) {
    return RowView{nullptr, part.x + r * columns, static_cast<int32_t>(columns)};
  });
  list_nonzeros<T>(*c, in_place, threads);
  return c.release();
}

bool in_range(const RowView& row, int64_t columns) {
  return std::all_of(row.index, row.index + row.length, [=](int32_t j) { return j >= 0 && j < columns; });
}

// Checks that numbers are finite and indices sorted, and computes the norms, in one pass over the data.
template <class T>
void check_sparse(Checked& c, int64_t entries, int threads) {
  Features& f = c.features;
  f.norms.resize(f.rows.size());
  const Seen seen = Readers(f.size(), entries, threads).look_over([&](int64_t from, int64_t to) {
    Seen own;
    for (int64_t r = from; r < to; ++r) {
      const RowView& row = f.rows[r];
      const T* x = static_cast<const T*>(row.value);
      const double square = checked_square(x, row.length);
      if (square != square && own.bad_row < 0) own.bad_row = r;
      f.norms[r] = static_cast<float>(square + f.bias * f.bias);
      int32_t up = 1;  // an integer, so that the compiler vectorises the loop
      for (int32_t j = 1; j < row.length; ++j) up &= row.index[j] > row.index[j - 1];
      if (row.length > 0) up &= row.index[0] >= 0, own.in_range &= row.index[row.length - 1] < f.columns;
      if (!up) own.sorted = false, own.in_range &= in_range(row, f.columns);
      if (own.ones) own.ones = std::all_of(x, x + row.length, [](T value) { return value == 1; });
    }
    return own;
  });
  c.bad_row = seen.bad_row, c.sorted = seen.sorted, c.in_range = seen.in_range;
  if (!seen.ones) return;
  f.kind = Kind::binary;
  for (RowView& row : f.rows) row.value = nullptr;
}

template <class T>
Checked* sparse(nb::list data, nb::list indices, nb::list starts, int64_t columns, double bias, int threads) {
  std::unique_ptr<Checked> c(empty_rows(sizeof(T) == 4 ? Kind::sparse32 : Kind::sparse64, columns, bias));
  check(data.size() == indices.size() && data.size() == starts.size(), "each matrix has three arrays");
  struct Part {
    const T* values;
    const int32_t *index, *start;
    int64_t entries, rows;
  };
  std::vector<Part> parts;
  parts.reserve(data.size());
  int64_t entries = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    const Numbers<T> values(data[i], 1);
    const Numbers<int32_t> index(indices[i], 1), start(starts[i], 1);
    check(index.size() == values.size(), unfit);
    parts.push_back(
        {values.data(), index.data(), start.data(), index.size(), std::max<int64_t>(1, start.size()) - 1});
    entries += index.size();
  }
  nb::gil_scoped_release release;
  list_rows(c->features.rows, parts, threads, [](const Part& part, int64_t r) {
    const int32_t from = part.start[r], to = part.start[r + 1];
    if (from < 0 || to < from || to > part.entries) throw std::invalid_argument(unfit);
    return RowView{part.index + from, part.values + from, to - from};
  });
  check_sparse<T>(*c, entries, threads);
  return c.release();
}

Checked* under_kernel(std::shared_ptr<Gram> gram, Array1<double> diagonal) {
  Checked* c = empty_rows(Kind::binary, gram->size(), 0);
  c->features.rows.resize(gram->size(), {nullptr, nullptr, 0});
  c->features.norms.assign(diagonal.data(), diagonal.data() + diagonal.size());
  c->features.gram = std::move(gram);
  return c;
}

// The whole kernel matrix, read in place.
Checked* kernel_rows(Array2<double> whole, Array1<double> diagonal) {
  const int64_t n = static_cast<int64_t>(diagonal.size());
  if (static_cast<int64_t>(whole.shape(0)) != n || static_cast<int64_t>(whole.shape(1)) != n)
    throw std::invalid_argument("the kernel matrix does not fit its diagonal");
  return under_kernel(std::make_shared<Gram>(whole.data(), n), diagonal);
}

// A cache of at most `capacity` blocks of rows. compute(first, last) returns a block as an array (last - first, n).
Checked* kernel_cache(Array1<double> diagonal, int64_t block_rows, int64_t capacity, nb::callable compute) {
  const int64_t n = static_cast<int64_t>(diagonal.size());
  if (block_rows < 1) throw std::invalid_argument("a block has at least one row");
  const auto ask = [n, compute](int64_t first, int64_t last, double* rows) {
    nb::gil_scoped_acquire acquire;  // a pass runs without the lock
    const nb::object found = compute(first, last);
    const auto block = nb::cast<Array2<double>>(found, false);
    if (static_cast<int64_t>(block.shape(0)) != last - first || static_cast<int64_t>(block.shape(1)) != n)
      throw std::invalid_argument("a block of the kernel matrix has the wrong shape");
    std::copy(block.data(), block.data() + (last - first) * n, rows);
  };
  return under_kernel(std::make_shared<Gram>(n, block_rows, capacity, ask), diagonal);
}

}  // namespace

static void bind_features(nb::module_& m) {
  nb::class_<Features>(m, "Rows")
      // X w
      .def("scores",
           [](const Features& f, Array1<double> w, int threads) {
             check(size(w) == f.width(), "as many weights as features are needed");
             return filled(f.size(), [&](double* out) {
               parallel(f.size(), threads, [&](int64_t from, int64_t to, int) {
                 for (int64_t r = from; r < to; ++r) out[r] = f.dot_weights(r, w.data());
               });
             });
           })
      // X' c
      .def("combine", [](const Features& f, Array1<double> c) {
        check(size(c) == f.size(), "as many factors as rows are needed");
        return filled(f.width(), [&](double* out) {
          for (int64_t r = 0; r < f.size(); ++r)
            if (c.data()[r] != 0) f.axpy(r, out, c.data()[r]);
        });
      });
  nb::class_<Checked>(m, "Features")
      .def_prop_ro(
          "rows", [](Checked& c) { return &c.features; }, nb::rv_policy::reference_internal)
      .def_ro("bad_row", &Checked::bad_row)
      .def_ro("sorted", &Checked::sorted)
      .def_ro("in_range", &Checked::in_range)
      .def("norms", [](const Checked& c) { return to_numpy(std::vector<float>(c.features.norms)); })
      .def_prop_ro("n_rows", [](const Checked& c) { return c.features.size(); })
      .def_prop_ro("width", [](const Checked& c) { return c.features.width(); })
      .def_prop_ro("kind",
                   [](const Checked& c) {
                     static const char* names[] = {"dense32", "dense64", "sparse32", "sparse64",
                                                   "binary",  "short32", "bytes"};
                     return names[static_cast<int>(c.features.kind)];
                   })
      .def_prop_ro("most_bytes",
                   [](const Checked& c) { return c.features.gram ? c.features.gram->most_bytes() : 0; })
      .def_prop_ro("computed",
                   [](const Checked& c) { return c.features.gram ? c.features.gram->computed() : 0; })
      .def_prop_ro("owned_bytes", [](const Checked& c) {
        const Features& f = c.features;
        return f.owned_bytes.size() + f.owned.size() * sizeof(int32_t) +
               f.owned_values.size() * sizeof(float) + f.owned_doubles.size() * sizeof(double);
      });
  m.def("kernel_rows", &kernel_rows, nb::rv_policy::take_ownership, nb::keep_alive<0, 1>());
  m.def("kernel_cache", &kernel_cache, nb::rv_policy::take_ownership);
  m.def("dense32", &dense<float>, nb::rv_policy::take_ownership);
  m.def("dense64", &dense<double>, nb::rv_policy::take_ownership);
  m.def("sparse32", &sparse<float>, nb::rv_policy::take_ownership);
  m.def("sparse64", &sparse<double>, nb::rv_policy::take_ownership);
}

static const Bindings features_bindings(&bind_features, true);

}  // namespace mm
