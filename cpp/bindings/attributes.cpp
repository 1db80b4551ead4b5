// Turns nodes that are described by attributes into rows of a sparse matrix, in one walk over Python's own objects.
//
//   "name", ["name", ...], {"name", ...}     the value 1 for each name
//   {"name": 0.5, "name": True}              the number
//   {"name": "value"}, {"name": ["v", ...]}  the value 1 for "name=value", for each value
//   {"name": {"inner": ...}}                 as {"name:inner": ...}
//   {"name": None}                           nothing
//
// The names of a node are put together in a buffer of bytes and looked up there. No Python object is made for them, and
// other threads do the lookups (attribute_rows.hpp). Names that are not strings, and types that are not Python's own,
// take the slow way through the interpreter.
#include <algorithm>
#include <string>

#include "attribute_rows.hpp"
#include "bindings/common.hpp"

namespace mm {
namespace {

constexpr size_t between_signals = 1024;  // examples between two checks for signals

[[noreturn]] void refuse(const char* why) {
  PyErr_SetString(PyExc_TypeError, why);
  throw nb::python_error();
}

nb::object checked(PyObject* made) {
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

// Appends a string as UTF-8. Half of a surrogate pair is written as if it were a character.
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

// Lists of strings lie anywhere in memory, so they are prefetched some items ahead. The strings are prefetched one list
// ahead, each with its head and the text behind it.
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

// Calls f for each item of an iterable, and holds a reference to the item meanwhile.
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

// The columns: a table of names that are strings, and numbers for the other names.
struct Attributes {
  NameTable table;
  nb::dict others;
  int32_t next_other = 0;

  // The number of a name that is not a string, or -1 if it has none.
  int32_t other(PyObject* name, bool grow) {
    PyObject* found = PyDict_GetItemWithError(others.ptr(), name);
    if (!found && PyErr_Occurred()) throw nb::python_error();
    if (!found && grow) {
      const nb::object number = nb::cast(next_other++);
      found = PyDict_SetDefault(others.ptr(), name, number.ptr());
      if (!found) throw nb::python_error();
    }
    return found ? static_cast<int32_t>(PyLong_AsLong(found)) : -1;
  }
  // All names, in the order of their columns. It works on a copy: making Python objects may run other Python code,
  // which may wait for the lock of the table.
  nb::list list() const {
    const auto [names, columns] = copied();
    nb::list all;
    for (int32_t j = 0; j < names.size(); ++j) all.append(text_of(names[j]));
    for (const auto [name, number] : others) {
      const size_t k = nb::cast<size_t>(number);
      if (k < columns.size() && columns[k] >= 0) all[static_cast<size_t>(columns[k])] = name;
    }
    return all;
  }
  // Copies the strings and the columns of other names under the lock.
  std::pair<Names, std::vector<int32_t>> copied() const {
    const std::shared_lock lock(table.lock);
    return {table.names, table.others};
  }
  int32_t size() const {
    const std::shared_lock lock(table.lock);
    return table.names.size();
  }
  // How often each column was given with a nonzero value.
  std::vector<int64_t> counts() const {
    const std::shared_lock lock(table.lock);
    return table.counts;
  }
  // Whether both have the same names in the same columns.
  bool same(const Attributes& other) const {
    if (this == &other) return true;
    {
      const std::shared_lock lock(table.lock), of_other(other.table.lock);
      if (!(table.names == other.table.names && table.others == other.table.others)) return false;
    }
    return others.equal(other.others);
  }
};

class Walk {
 public:
  Walk(Attributes& known, bool grow, uint32_t hashed, int threads)
      : known_(known), grow_(grow), hashed_(hashed > 0), line_(known.table, grow, hashed, threads) {}

  void examples(PyObject* X, bool sequences) {
    each(X, [&](PyObject* x) {
      if (sequences) {
        each(x, [&](PyObject* node) { row(node); }, true);
      } else {
        row(x);
      }
      offsets_.push_back(n_rows_);
      if (offsets_.size() % between_signals == 0 && PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  }
  // Returns true if the interpreter's error comes from reading a node, and stores this node.
  bool blame(nb::python_error& error) {
    PyObject* const of_a_node[] = {PyExc_TypeError, PyExc_ValueError, PyExc_OverflowError,
                                   PyExc_RecursionError};
    const auto matches = [&](PyObject* kind) { return error.matches(kind); };
    if (!node_.is_valid() || std::none_of(std::begin(of_a_node), std::end(of_a_node), matches)) return false;
    bad_item_ = node_;
    return true;
  }
  // Values, indices, index pointers, offsets of examples; and the example, node and item that cannot be read.
  nb::tuple result() {
    SparseRows rows = line_.finish();
    const bool bad = bad_item_.is_valid();
    const int64_t example = static_cast<int64_t>(offsets_.size()) - 1, node = n_rows_ - offsets_.back();
    return nb::make_tuple(to_numpy(std::move(rows.values)), to_numpy(std::move(rows.indices)),
                          to_numpy(std::move(rows.starts)), to_numpy(std::move(offsets_)), bad ? example : -1,
                          bad ? node : -1, bad ? bad_item_ : nb::none());
  }

 private:
  void row(PyObject* node) {
    node_ = nb::borrow(node);
    item(node);
    line_.end_row();
    ++n_rows_;
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
      } else {  // may call back into Python
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
    if (!around_.empty()) rows_.text.append(around_);
    append_text(rows_.text, key);
    rows_.text.push_back('=');
    append_text(rows_.text, value);
    rows_.put(1.0);
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
  // The text that a format string would write.
  static nb::object formatted(PyObject* part) {
    return PyUnicode_CheckExact(part) ? nb::borrow(part) : checked(PyObject_Format(part, nullptr));
  }

  // Adds a name below the names around it. A name that is not a string stands for itself.
  void name(PyObject* own, double value) {
    if (!PyUnicode_Check(own)) {
      if (hashed_) refuse("only strings have a hash that is the same everywhere");
      const int32_t other = known_.other(own, grow_);
      if (other >= 0) rows_.put(other, value);
      return;
    }
    if (!around_.empty()) rows_.text.append(around_);
    append_text(rows_.text, own);
    rows_.put(value);
  }

  Attributes& known_;
  bool grow_, hashed_;
  RowLine line_;
  NamedRows& rows_ = line_.open();
  std::vector<int64_t> offsets_{0};  // number of rows before each example
  int64_t n_rows_ = 0;
  std::string around_;  // the names around a nested one
  nb::object node_, bad_item_;
};

// Reads the nodes of all examples. A node that cannot be read ends the walk.
nb::tuple read(Attributes& known, nb::object X, bool sequences, bool grow, uint32_t hashed, int threads) {
  Walk walk(known, grow, hashed, threads);
  try {
    walk.examples(X.ptr(), sequences);
  } catch (nb::python_error& error) {
    if (!walk.blame(error)) throw;
  }
  return walk.result();
}

}  // namespace

static void bind_attributes(nb::module_& m) {
  nb::class_<Attributes>(m, "Attributes")
      .def(nb::init<>())
      .def("__len__", &Attributes::size)
      .def("names", &Attributes::list)
      .def("counts", [](const Attributes& a) { return to_numpy(a.counts()); })
      .def("same", &Attributes::same)
      .def("read", &read);
}

static const Bindings attributes_bindings(&bind_attributes, true);

}  // namespace mm
