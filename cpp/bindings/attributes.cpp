// Nodes that are described by attributes as rows of a sparse matrix: one walk over Python's own objects.
//
//   "name", ["name", ...], {"name", ...}     the value 1 for each name
//   {"name": 0.5, "name": True}              the number
//   {"name": "value"}, {"name": ["v", ...]}  the value 1 for "name=value", for each value
//   {"name": {"inner": ...}}                 as {"name:inner": ...}
//   {"name": None}                           nothing
//
// The names of a node are put together in a buffer of bytes and looked up there: no Python object is made for them.
// Names that are not strings, and types that are not Python's own, go the slow way through the interpreter.
#include <algorithm>
#include <string>

#include "bindings/common.hpp"
#include "names.hpp"

namespace mm {
namespace {

constexpr size_t most_entries = 0x7FFFFFFF;  // the index pointers have 32 bits
constexpr size_t between_signals = 1024;     // examples

[[noreturn]] void refuse(const char* why) {
  PyErr_SetString(PyExc_TypeError, why);
  throw nb::python_error();
}

nb::object checked(PyObject* made) {
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

// A string as UTF-8; half of a surrogate pair as if it were a character.
void append_text(std::string& bytes, PyObject* text) {
  const Py_ssize_t n = PyUnicode_GET_LENGTH(text);
  if (PyUnicode_IS_ASCII(text)) {
    bytes.append(static_cast<const char*>(PyUnicode_DATA(text)), static_cast<size_t>(n));
    return;
  }
  const int kind = PyUnicode_KIND(text);
  const void* data = PyUnicode_DATA(text);
  const auto put = [&](uint32_t byte) { bytes.push_back(static_cast<char>(byte)); };
  const auto tail = [&](uint32_t c, int shift) { put(0x80 | ((c >> shift) & 0x3F)); };
  for (Py_ssize_t i = 0; i < n; ++i) {
    const uint32_t c = PyUnicode_READ(kind, data, i);
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xC0 | (c >> 6));
      tail(c, 0);
    } else if (c < 0x10000) {
      put(0xE0 | (c >> 12));
      tail(c, 6);
      tail(c, 0);
    } else {
      put(0xF0 | (c >> 18));
      tail(c, 12);
      tail(c, 6);
      tail(c, 0);
    }
  }
}

nb::object text_of(std::string_view bytes) {
  return checked(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogatepass"));
}

bool is_set(PyObject* o) { return PyAnySet_Check(o); }

bool is_mapping(PyObject* o) {
  if (PyDict_Check(o)) return true;
  static const nb::handle kind =
      nb::object(nb::module_::import_("collections.abc").attr("Mapping")).release();
  const int found = PyObject_IsInstance(o, kind.ptr());
  if (found < 0) throw nb::python_error();
  return found > 0;
}

// Lists of strings lie anywhere in memory: they are asked for some items ahead, and the strings, each with its head and
// the text behind it, one list ahead.
void ask_ahead(PyObject* lists, Py_ssize_t k) {
  const auto later = [&](Py_ssize_t ahead) -> PyObject* {
    return k + ahead < PyList_GET_SIZE(lists) ? PyList_GET_ITEM(lists, k + ahead) : nullptr;
  };
  if (PyObject* distant = later(6)) fetch_ahead(distant);
  if (PyObject* close = later(3); close && PyList_CheckExact(close))
    fetch_ahead(reinterpret_cast<PyListObject*>(close)->ob_item);
  if (PyObject* next = later(1); next && PyList_CheckExact(next))
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(next); ++j) {
      const char* text = reinterpret_cast<const char*>(PyList_GET_ITEM(next, j));
      fetch_ahead(text);
      fetch_ahead(text + sizeof(PyASCIIObject));
    }
}

// What an iterable holds, with a reference to each while f looks at it.
template <class F>
void each(PyObject* items, F&& f, bool nodes = false) {
  if (PyList_CheckExact(items)) {
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(items); ++k) {
      if (nodes) ask_ahead(items, k);
      f(nb::borrow(PyList_GET_ITEM(items, k)).ptr());
    }
    return;
  }
  const nb::object iterator = checked(PyObject_GetIter(items));
  while (PyObject* item = PyIter_Next(iterator.ptr())) f(nb::steal(item).ptr());
  if (PyErr_Occurred()) throw nb::python_error();
}

// The columns: names that are known, those among them that are not strings, and how often each was given.
struct Attributes {
  Names names;
  nb::dict others;
  std::vector<int64_t> counts;

  int32_t other(PyObject* name, bool grow) {
    PyObject* found = PyDict_GetItemWithError(others.ptr(), name);
    if (found) return static_cast<int32_t>(PyLong_AsLong(found));
    if (PyErr_Occurred()) throw nb::python_error();
    if (!grow) return -1;
    const int32_t number = names.skip();
    others[nb::handle(name)] = number;
    return number;
  }
  nb::list list() const {
    nb::list all;
    for (int32_t j = 0; j < names.size(); ++j) all.append(text_of(names[j]));
    for (const auto [name, number] : others) all[nb::cast<size_t>(number)] = name;
    return all;
  }
};

// Rows of all examples: CSR, and where the rows of each example begin. A node that cannot be read ends the walk.
struct Read {
  std::vector<int32_t> indices, starts{0};
  std::vector<double> values;
  std::vector<int64_t> offsets{0};
  int64_t bad_example = -1, bad_node = -1;
  nb::object bad_item = nb::none();
};

class Walk {
 public:
  Walk(Attributes& known, bool grow, uint32_t hashed, Read& read)
      : known_(known), read_(read), grow_(grow), hashed_(hashed) {}

  void examples(PyObject* X, bool sequences) {
    each(X, [&](PyObject* x) {
      if (sequences) {
        each(x, [&](PyObject* node) { row(node); }, true);
      } else {
        row(x);
      }
      read_.offsets.push_back(static_cast<int64_t>(read_.starts.size()) - 1);
      if (read_.offsets.size() % between_signals == 0 && PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  }
  // Whether the error of the interpreter is one of a node, which is kept.
  bool blame(nb::python_error& error) {
    PyObject* const of_a_node[] = {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError,
                                   PyExc_RecursionError};
    const auto matches = [&](PyObject* kind) { return error.matches(kind); };
    if (!node_.is_valid() || std::none_of(std::begin(of_a_node), std::end(of_a_node), matches)) return false;
    read_.bad_example = static_cast<int64_t>(read_.offsets.size()) - 1;
    read_.bad_node = static_cast<int64_t>(read_.starts.size()) - 1 - read_.offsets.back();
    read_.bad_item = node_;
    return true;
  }

 private:
  void row(PyObject* node) {
    node_ = nb::borrow(node);
    item(node);
    end_row();
    node_ = nb::object();
  }
  void item(PyObject* node) {
    if (PyUnicode_Check(node)) {
      name(node, 1.0);
    } else if (PyDict_CheckExact(node)) {
      dict(node);
    } else if (!PyList_Check(node) && !PyTuple_Check(node) && !is_set(node) && is_mapping(node)) {
      pairs(node);
    } else {
      each(node, [&](PyObject* own) { name(own, 1.0); });
    }
  }
  void dict(PyObject* node) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(node, &position, &key, &value)) {
      if (PyUnicode_CheckExact(key) && PyUnicode_CheckExact(value)) {
        indicator(key, value);
      } else {  // which may call back into Python
        const nb::object own = nb::borrow(key), other = nb::borrow(value);
        pair(key, value);
      }
    }
  }
  // A mapping that is not a plain dict.
  void pairs(PyObject* node) {
    const nb::object items = checked(PyObject_CallMethod(node, "items", nullptr));
    each(items.ptr(), [&](PyObject* entry) {
      const nb::object both = checked(PySequence_Tuple(entry));
      if (PyTuple_GET_SIZE(both.ptr()) != 2) refuse("items() must give pairs");
      pair(PyTuple_GET_ITEM(both.ptr(), 0), PyTuple_GET_ITEM(both.ptr(), 1));
    });
  }
  void indicator(PyObject* key, PyObject* value) {
    if (!around_.empty()) text_.append(around_);
    append_text(text_, key);
    text_.push_back('=');
    append_text(text_, value);
    put(1.0);
  }
  void pair(PyObject* key, PyObject* value) {
    if (value == Py_None) return;
    const size_t before = around_.size();
    if (PyUnicode_Check(value)) {
      indicator(formatted(key).ptr(), formatted(value).ptr());
    } else if (PyList_Check(value) || PyTuple_Check(value) || is_set(value)) {
      const nb::object own = formatted(key);
      each(value, [&](PyObject* one) {
        if (!PyUnicode_Check(one)) refuse("a list of values must hold strings");
        indicator(own.ptr(), formatted(one).ptr());
      });
    } else if (!PyFloat_Check(value) && !PyLong_Check(value) && is_mapping(value)) {
      append_text(around_, formatted(key).ptr());
      around_.push_back(':');
      nested(value);
      around_.resize(before);
    } else if (before > 0 && !PyUnicode_Check(key)) {
      name(formatted(key).ptr(), number(value));
    } else {
      name(key, number(value));
    }
  }
  void nested(PyObject* node) {
    struct Deeper {
      Deeper() {
        if (Py_EnterRecursiveCall(" in nested attributes")) throw nb::python_error();
      }
      ~Deeper() { Py_LeaveRecursiveCall(); }
    } deeper;
    PyDict_CheckExact(node) ? dict(node) : pairs(node);
  }
  static double number(PyObject* value) {
    if (PyFloat_CheckExact(value)) return PyFloat_AS_DOUBLE(value);
    return PyFloat_AS_DOUBLE(checked(PyNumber_Float(value)).ptr());
  }
  // As a format string writes it.
  static nb::object formatted(PyObject* part) {
    return PyUnicode_CheckExact(part) ? nb::borrow(part) : checked(PyObject_Format(part, nullptr));
  }

  // A name as it was given, below the names around it; one that is not a string stands for itself.
  void name(PyObject* own, double value) {
    if (!PyUnicode_Check(own)) {
      if (hashed_) refuse("only strings have a hash that is the same everywhere");
      look_up();  // numbers are given in the order of appearance
      add(known_.other(own, grow_), value);
      return;
    }
    if (!around_.empty()) text_.append(around_);
    append_text(text_, own);
    put(value);
  }
  // The name at the end of the buffer: it waits until the row is whole.
  void put(double value) {
    ends_.push_back(text_.size());
    waiting_.push_back(value);
  }
  // The names that wait.
  void look_up() {
    views_.clear();
    for (size_t k = 0, from = 0; k < ends_.size(); from = ends_[k++])
      views_.emplace_back(text_.data() + from, ends_[k] - from);
    numbers_.resize(views_.size());
    if (!hashed_) known_.names.find(views_, numbers_.data());
    for (size_t k = 0; k < views_.size(); ++k) {
      if (hashed_) numbers_[k] = static_cast<int32_t>(crc32(views_[k]) % hashed_);
      if (numbers_[k] < 0 && grow_) numbers_[k] = known_.names.add(views_[k]);
      add(numbers_[k], waiting_[k]);
    }
    text_.clear(), ends_.clear(), waiting_.clear();
  }
  void add(int32_t column, double value) {
    if (column < 0) return;
    if (grow_) {
      if (static_cast<size_t>(column) >= known_.counts.size()) known_.counts.push_back(0);
      known_.counts[column] += value != 0;
    }
    order_.push_back(static_cast<uint64_t>(column) << 32 | order_.size());
    found_.push_back(value);
  }
  // Columns in order; what has the same one is added up, and zeros are left out.
  void end_row() {
    look_up();
    std::sort(order_.begin(), order_.end());
    for (size_t k = 0; k < order_.size();) {
      const uint64_t column = order_[k] >> 32;
      double sum = 0.0;
      for (; k < order_.size() && order_[k] >> 32 == column; ++k) sum += found_[order_[k] & 0xFFFFFFFFu];
      if (sum == 0) continue;
      read_.indices.push_back(static_cast<int32_t>(column));
      read_.values.push_back(sum);
    }
    if (read_.indices.size() > most_entries)
      throw nb::index_error("X has more than 2^31 - 1 attributes: give it in several parts");
    read_.starts.push_back(static_cast<int32_t>(read_.indices.size()));
    order_.clear();
    found_.clear();
  }

  Attributes& known_;
  Read& read_;
  bool grow_;
  uint32_t hashed_;
  std::string around_;  // the names around a nested one
  nb::object node_;
  std::string text_;  // names of the row, one after the other, that were not looked up yet
  std::vector<size_t> ends_;
  std::vector<double> waiting_;  // their values
  std::vector<std::string_view> views_;
  std::vector<int32_t> numbers_;
  std::vector<uint64_t> order_;  // (column, place) of what the row has so far
  std::vector<double> found_;
};

nb::tuple read(Attributes& known, nb::object X, bool sequences, bool grow, uint32_t hashed) {
  Read found;
  Walk walk(known, grow, hashed, found);
  try {
    walk.examples(X.ptr(), sequences);
  } catch (nb::python_error& error) {
    if (!walk.blame(error)) throw;
  }
  return nb::make_tuple(to_numpy(std::move(found.values)), to_numpy(std::move(found.indices)),
                        to_numpy(std::move(found.starts)), to_numpy(std::move(found.offsets)),
                        found.bad_example, found.bad_node, found.bad_item);
}

}  // namespace

static void bind_attributes(nb::module_& m) {
  nb::class_<Attributes>(m, "Attributes")
      .def(nb::init<>())
      .def("__len__", [](const Attributes& a) { return a.names.size(); })
      .def("names", &Attributes::list)
      .def("counts", [](const Attributes& a) { return to_numpy(std::vector<int64_t>(a.counts)); })
      .def("same", [](const Attributes& a,
                      const Attributes& b) { return a.names == b.names && a.others.equal(b.others); })
      // values, indices, index pointers, offsets of examples; and the example, node and item that cannot be read
      .def("read", &read);
}

static const Bindings attributes_bindings(&bind_attributes, true);

}  // namespace mm
