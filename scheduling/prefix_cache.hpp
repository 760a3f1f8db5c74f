// Decides which prefixes are kept, and counts who names which page. The classes are plain, without
// actors.
#pragma once

#include "gpu/kv_pool.hpp"
#include "paceline/request.hpp"
#include "scheduling/kv.hpp"
#include "scheduling/limits.hpp"

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace paceline::scheduling {

/// Counts who names the pages of one pool: tables of sequences, and the prefix cache.
class PageBook {
public:
  explicit PageBook(std::size_t pages) : names_(pages) {}

  void name(const gpu::PageTable& table);
  void unname(const gpu::PageTable& table);
  void keep(const gpu::PageRef& page);
  void let_go(const gpu::PageRef& page);

  std::size_t used() const { return used_; }     ///< Pages that a table names.
  std::size_t cached() const { return cached_; } ///< Pages that only the prefix cache names.

private:
  struct Names {
    std::uint32_t tables = 0;
    std::uint32_t entries = 0;
  };
  void change(std::uint32_t page, int tables, int entries);

  std::vector<Names> names_; // by page id
  std::size_t used_ = 0;
  std::size_t cached_ = 0;
};

/// The prefix cache keeps full pages of committed tokens by what they hold. Each entry is one
/// page's tokens after those of its parent, and how many of them the fast path read. Entries are
/// found by a chain of hashes and then compared; a chain begins with its salt, so that nobody with
/// another salt finds it. An entry has the target's page and, where they are right too, the other
/// pools'; a page of another pool is never there without the pages before it.
///
/// Entries are kept in order of use, parents as recent as their children or more. Threads: one.
class PrefixCache {
public:
  using Hash = std::uint64_t (*)(std::uint64_t parent, std::span<const TokenId> page, int fast);
  static std::uint64_t hash_page(std::uint64_t parent, std::span<const TokenId> page, int fast);

  /// books: they are told of every page that comes and goes.
  PrefixCache(int page_tokens, PerPool<PageBook*> books,
              std::size_t entries_max = limits::prefix_entries_max, Hash hash = hash_page);

  using Pages = std::vector<gpu::PageRef>;
  /// Returns the pages that hold the beginning of `tokens` as `path` would write them, without the
  /// last one, since a sequence has to feed at least one token, and only up to where `path` can go
  /// on. Another pool never has more pages than the target's.
  PerPool<Pages> lookup(std::span<const TokenId> tokens, const PrefillPath& path = {},
                        std::string_view salt = {});
  /// Does the same for a recurrent target, up to the last page behind which a state is kept. It
  /// returns that state too.
  std::pair<PerPool<Pages>, gpu::PageRef> lookup_state(std::span<const TokenId> tokens,
                                                       const PrefillPath& path = {},
                                                       std::string_view salt = {});

  /// A sequence's table (null: none) and how many of its leading tokens have right keys and values.
  struct Source {
    const gpu::PageTable* table = nullptr;
    int valid = 0;
  };
  /// Keeps the full pages, up to one that the table has let go of and that is not here either. What
  /// is there already stays; pages of other pools that it lacked are added.
  void publish(std::span<const TokenId> tokens, const PerPool<Source>& from,
               const PrefillPath& path = {}, std::string_view salt = {});

  /// Keeps a state that holds the positions before `snapshot.position`, which is at the end of a
  /// page that was published; one that is there already stays.
  void keep_state(std::span<const TokenId> tokens, const gpu::StateAt& snapshot,
                  const PrefillPath& path = {}, std::string_view salt = {});
  /// Gives back the least recently used state that nobody else holds. Returns whether there was
  /// one.
  bool evict_state();

  /// Counts the pages that `evict` could give back: those that nobody else holds.
  std::size_t evictable(Pool pool) const;
  /// Gives back up to `pages` pages, least recently used first, and returns how many. An entry goes
  /// with all that follow it: these hold nothing by then that could be given back.
  std::size_t evict(Pool pool, std::size_t pages);

  std::size_t entries() const { return recent_.size(); }

private:
  struct Entry {
    Entry* parent = nullptr;
    std::uint64_t key = 0;
    std::vector<TokenId> tokens;
    int fast = 0;     ///< Tokens that the fast path read.
    std::string salt; ///< Salt of an entry without a parent.
    PerPool<gpu::PageRef> pages;
    std::vector<std::list<Entry>::iterator> children;
    gpu::PageRef state{}; ///< It holds the positions of this page and those before.
  };
  using Position = std::list<Entry>::iterator;
  using Path = std::vector<Position>;

  /// The text that a sequence's pages are known by.
  struct Text {
    std::span<const TokenId> tokens;
    const PrefillPath& path;
    std::string_view salt;
  };
  /// The content of one page.
  struct Content {
    std::span<const TokenId> tokens;
    int fast;
    std::string_view salt; ///< Salt of the first page.
  };
  Content page_of(const Text& text, std::size_t index) const;
  std::uint64_t key_of(const Entry* parent, const Content& page) const;
  std::size_t full_pages(const Source& from, std::size_t tokens) const;
  Path walk(const Text& text, std::size_t pages);
  Path beginning(const Text& text);
  PerPool<Pages> pages_of(const Path& path) const;
  Position insert(const Path& before, const Content& content, gpu::PageRef target);
  void touch(const Path& path);
  void set(Entry& entry, Pool pool, gpu::PageRef page);
  std::vector<Position> with_descendants(Position entry) const;
  /// Returns the position behind the erased entry, like std::list::erase.
  Position erase(Position entry);
  void erase_pages(Position entry, Pool pool);

  int page_tokens_;
  PerPool<PageBook*> books_;
  std::size_t entries_max_;
  Hash hash_;
  std::list<Entry> recent_; // most recently used first
  std::unordered_multimap<std::uint64_t, Position> index_;
};

} // namespace paceline::scheduling
