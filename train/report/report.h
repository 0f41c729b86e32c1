#pragma once
// The results of runs, as one page for a browser: their curves over each other, what the trained models confuse, their
// worst mistakes, and a training step as planned and as measured.

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace braid {

/// HTML that needs nothing else: no network and no other file. `folders` are those of runs, or of jobs of runs;
/// `overrides` are for their configs. Runs each trained model over its validation set, and some training steps of each
/// folder's config. A model that is not saved yet is left out. Throws ConfigError or DataError if a folder is not that
/// of a run, and what look_at_val_images() and Trainer throw.
std::string report_page(std::span<const std::filesystem::path> folders, const std::vector<std::string>& overrides = {},
                        const std::string& checkpoint = "");

/// The same page for runs that still train: only their curves, because anything else would slow down the training. It
/// only reads, so it needs no lock of a folder.
class LiveReport {
 public:
  /// Throws ConfigError if a folder is not that of a run.
  explicit LiveReport(std::vector<std::filesystem::path> folders, std::vector<std::string> overrides = {});

  /// The curves as they are now, as JSON. A folder that cannot be read any more is left out; "problems" tells why.
  std::string data() const;
  /// A page that asks its server for "data.json" every few seconds, for data(), and draws the curves again.
  std::string page() const;

 private:
  std::vector<std::filesystem::path> folders_;
  std::vector<std::string> overrides_;
};

/// The name of a run's own page, in its folder.
inline constexpr const char* kReportFile = "report.html";

/// The page without its data: train/report/page/, put together by the build.
extern const char* const kReportTemplate;

}  // namespace braid
