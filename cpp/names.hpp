// Names and their numbers, in the order of first appearance: an open-addressing hash table over the bytes of
// the names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "portable.hpp"

namespace mm {

// The CRC-32 of zlib, which is the same in every process and on every machine.
inline uint32_t crc32(std::string_view bytes) {
  static const auto table = [] {
    std::vector<uint32_t> t(256);
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = (t[i] >> 1) ^ (t[i] & 1 ? 0xEDB88320u : 0u);
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

class Names {
 public:
  Names() : slots_(1024, empty) {}

  int32_t size() const { return static_cast<int32_t>(ends_.size()) - 1; }
  std::string_view operator[](int32_t number) const {
    return {bytes_.data() + ends_[number], ends_[number + 1] - ends_[number]};
  }
  bool operator==(const Names& other) const { return ends_ == other.ends_ && bytes_ == other.bytes_; }
  // Computes the hashes of names, and their numbers, or -1 for unknown names. Prefetches the slots and bytes,
  // because a large table is not in the cache.
  void find(const std::vector<std::string_view>& names, int32_t* numbers, uint64_t* hashes) const {
    constexpr size_t ahead = 16;
    int32_t likely[ahead];
    for (size_t from = 0; from < names.size(); from += ahead) {
      const size_t n = std::min(ahead, names.size() - from);
      uint64_t* const h = hashes + from;
      for (size_t k = 0; k < n; ++k) fetch_ahead(&slots_[home(h[k] = hash(names[from + k]))]);
      for (size_t k = 0; k < n; ++k)
        if ((likely[k] = slots_[home(h[k])].number) >= 0) fetch_ahead(&ends_[likely[k]]);
      for (size_t k = 0; k < n; ++k)
        if (likely[k] >= 0) fetch_ahead(bytes_.data() + ends_[likely[k]]);
      for (size_t k = 0; k < n; ++k) numbers[from + k] = slots_[place(names[from + k], h[k])].number;
    }
  }
  // Returns the number of a name, whose hash is h. A new name gets the next number.
  int32_t add(std::string_view name, uint64_t h) {
    const size_t found = place(name, h);
    if (slots_[found].number >= 0) return slots_[found].number;
    const int32_t number = size();
    slots_[found] = {tag(h), number};
    bytes_.insert(bytes_.end(), name.begin(), name.end());
    ends_.push_back(bytes_.size());
    if (2 * ends_.size() > slots_.size()) grow();
    return number;
  }
  // Uses up the next number for an item whose name is stored elsewhere.
  int32_t skip() {
    ends_.push_back(bytes_.size());
    return size() - 1;
  }

 private:
  struct Slot {
    uint32_t tag;
    int32_t number;
  };
  static constexpr Slot empty{0, -1};

  // Hashes eight bytes at a time, by multiplying and folding.
  static uint64_t hash(std::string_view name) {
    const char* p = name.data();
    size_t n = name.size();
    uint64_t h = n * 0x9E3779B97F4A7C15u;
    for (; n >= 8; p += 8, n -= 8) h = mixed(h, word<uint64_t>(p));
    if (n >= 4) return mixed(h, word<uint32_t>(p) | static_cast<uint64_t>(word<uint32_t>(p + n - 4)) << 32);
    if (n > 0) return mixed(h, byte(p) | byte(p + n / 2) << 8 | byte(p + n - 1) << 16);
    return h;
  }
  static uint64_t mixed(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0xBF58476D1CE4E5B9u;
    return (h ^ (h >> 32)) * 0x94D049BB133111EBu;
  }
  template <class Word>
  static Word word(const char* p) {
    Word found;
    std::memcpy(&found, p, sizeof(Word));
    return found;
  }
  static uint64_t byte(const char* p) { return static_cast<uint8_t>(*p); }
  static uint32_t tag(uint64_t h) { return static_cast<uint32_t>(h); }

  size_t home(uint64_t h) const { return (h >> 29) & (slots_.size() - 1); }
  // The slot of a name, or the empty slot into which it would go.
  size_t place(std::string_view name, uint64_t h) const {
    const size_t mask = slots_.size() - 1;
    size_t at = home(h);
    while (slots_[at].number >= 0 && !(slots_[at].tag == tag(h) && (*this)[slots_[at].number] == name))
      at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Slot> before(4 * slots_.size(), empty);
    before.swap(slots_);
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : before) {
      if (slot.number < 0) continue;
      size_t at = home(hash((*this)[slot.number]));
      while (slots_[at].number >= 0) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }

  std::vector<char> bytes_;
  std::vector<size_t> ends_{0};  // bytes of name j: ends_[j] .. ends_[j + 1]
  std::vector<Slot> slots_;
};

}  // namespace mm
