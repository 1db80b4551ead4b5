#include "models/grammar.hpp"

#include <algorithm>

#include "bindings/powers.hpp"

namespace mm {

using Codes = Array1<int32_t>;

// Nothing is read out of range later, whatever the arrays hold.
static void check_rules(const RuleTable& t, int terminals) {
  const size_t n = t.left.size();
  check(t.reals >= 0 && t.symbols >= t.reals && static_cast<int>(t.root.size()) == t.reals && terminals >= 0,
        "symbols");
  check(t.right.size() == n && t.parent.size() == n && within(t.left, 0, t.symbols) &&
            within(t.right, 0, t.reals) && within(t.parent, 0, t.symbols),
        "binary rules");
  for (size_t r = 1; r < n; ++r)
    check(std::pair(t.left[r - 1], t.right[r - 1]) <= std::pair(t.left[r], t.right[r]), "order of rules");
  check(t.lower.size() == t.upper.size() && within(t.upper, 0, t.reals) && within(t.lower, 0, t.reals),
        "unary rules");
  check(t.tag.size() == t.terminal.size() && within(t.tag, 0, t.reals) && within(t.terminal, 0, terminals) &&
            std::is_sorted(t.terminal.begin(), t.terminal.end()),
        "lexical rules");
  check_offsets(t.chain_first, static_cast<int64_t>(t.chain_rules.size()), EmptyRanges::refused,
                "chains of rules");
  check(within(t.chain_rules, 0, t.unaries()), "chains");
  for (int c = 0; c < t.chains(); ++c) {
    for (int32_t r = t.chain_first[c] + 1; r < t.chain_first[c + 1]; ++r)
      check(t.lower[t.chain_rules[r - 1]] == t.upper[t.chain_rules[r]], "rules of a chain");
    check(c == 0 || t.chain_bottom(c - 1) <= t.chain_bottom(c), "order of chains");
  }
}

static void bind_rules(nb::module_& m) {
  nb::class_<RuleTable>(m, "GrammarRules")
      .def("__init__", [](RuleTable* self, int symbols, int terminals, Array1<uint8_t> root, Codes left,
                          Codes right, Codes parent, Codes upper, Codes lower, Codes chain_first,
                          Codes chain_rules, Codes terminal, Codes tag) {
        RuleTable t{symbols,
                    static_cast<int>(root.size()),
                    to_vector(left),
                    to_vector(right),
                    to_vector(parent),
                    to_vector(upper),
                    to_vector(lower),
                    to_vector(chain_first),
                    to_vector(chain_rules),
                    to_vector(terminal),
                    to_vector(tag),
                    to_vector(root)};
        check_rules(t, terminals);
        t.index(terminals);
        new (self) RuleTable(std::move(t));
      });
}

static void index_spans(GrammarData& data) {
  const Grammar grammar(data);
  data.span_first.assign(1, 0);
  for (int64_t i = 0; i < data.blocks(); ++i) {
    if (!data.truth.empty())
      grammar.each_span(data.truth.data() + data.place(i), 0, data.length(i),
                        [&](int from, int to, int label) {
                          data.span_keys.push_back(span_key(from, to, label, data.rules.reals));
                        });
    std::sort(data.span_keys.begin() + data.span_first.back(), data.span_keys.end());
    data.span_first.push_back(static_cast<int64_t>(data.span_keys.size()));
  }
}

static void bind_data(nb::class_<GrammarData>& kind) {
  kind.def(
      "__init__",
      [](GrammarData* self, const RuleTable& rules, Array1<int64_t> offsets, Codes words, Codes truth,
         bool spans) {
        GrammarData data{rules, to_vector(offsets), to_vector(words), to_vector(truth), spans};
        const int64_t terminals = static_cast<int64_t>(rules.terminal_first.size()) - 1;
        check_offsets(data.offsets, static_cast<int64_t>(data.words.size()), EmptyRanges::refused,
                      "sentences of words");
        check(within(data.words, 0, terminals), "words");
        const Grammar grammar(data);
        if (!data.truth.empty()) {
          check(static_cast<int64_t>(data.truth.size()) == data.place(data.blocks()), "size of trees");
          for (int64_t i = 0; i < data.blocks(); ++i)
            check(grammar.valid(i, data.truth.data() + data.place(i)), "a tree that the rules deny");
        }
        index_spans(data);
        new (self) GrammarData(std::move(data));
      },
      nb::keep_alive<1, 2>());
}

static void bind_grammar(nb::module_& m) {
  bind_rules(m);
  nb::class_<GrammarData> kind(m, "GrammarData");
  bind_data(kind);
  kind.def("best_k", &best_k<Grammar>);
  bind_powers<Grammar>(kind);
  bind_box_of<Grammar>(kind);
}

static const Bindings grammar_bindings(&bind_grammar);

}  // namespace mm
