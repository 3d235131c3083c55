#include "app/help/manual.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QMap>
#include <QRegularExpression>
#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "core/files/assets.h"
#include "core/files/text/words.h"

namespace moescope {

namespace {

constexpr int kTreeLevels = 4;         // levels from a program in a build folder up to its source tree
constexpr int kShortestBeginning = 3;  // letters of a synonym that are enough
constexpr int kNamedPage = 100;        // words in a title for which a synonym that is the title counts

struct PageText {
  ManualPage page;
  QStringList paragraphs;  // and rows of tables
  QString headings;        // with the first cells of the rows of tables
};

const QList<PageText>& pageTexts() {
  static QList<PageText> texts;
  if (!texts.isEmpty()) return texts;
  static const QRegularExpression kHeading(R"(^(?:#+ |\| )([^|\n]+))", QRegularExpression::MultilineOption);
  for (const ManualPage& page : manualPages()) {
    QFile file(page.path);
    if (!file.open(QIODevice::ReadOnly)) continue;
    QString whole = QString::fromUtf8(file.readAll());
    PageText text{page, {}, {}};
    for (const auto& heading : kHeading.globalMatch(whole)) text.headings += heading.captured(1) + '\n';
    text.paragraphs = whole.replace("\n|", "\n\n|").split("\n\n");
    texts << text;
  }
  return texts;
}

using Weight = std::tuple<qsizetype, qsizetype, qsizetype>;  // words in the title and in headings, places

// Counts the paragraphs with all words of `hit`.
Weight weightOf(const PageText& text, ManualPage& hit) {
  qsizetype in_title = 0, in_headings = 0;
  for (const QString& word : hit.words) {
    in_title += text.page.title.contains(word, Qt::CaseInsensitive);
    in_headings += text.headings.contains(word, Qt::CaseInsensitive);
  }
  hit.places = std::ranges::count_if(text.paragraphs, [&](const QString& paragraph) {
    return std::ranges::all_of(hit.words,
                               [&](const QString& word) { return paragraph.contains(word, Qt::CaseInsensitive); });
  });
  return {in_title, in_headings, hit.places};
}

}  // namespace

QString manualFolder() {
  QDir folder(QCoreApplication::applicationDirPath());
  QStringList places{folder.filePath("../share/doc/moescope/docs"), folder.filePath("../share/doc/moescope"),
                     folder.filePath("docs")};
  for (int level = 0; level < kTreeLevels && folder.cdUp(); ++level) places << folder.filePath("docs");
  for (const QString& place : places)
    if (QFileInfo::exists(place + "/glossary.md")) return QDir::cleanPath(place);
  return {};
}

QString manualPage(const QString& name) {
  const QString folder = manualFolder();
  const QString path = folder + '/' + name;
  return !folder.isEmpty() && QFileInfo::exists(path) ? path : QString();
}

// The pages are those that the page of contents links, in its order.
QList<ManualPage> manualPages() {
  const QString contents_path = manualPage("index.md");
  QFile contents(contents_path);
  if (contents_path.isEmpty() || !contents.open(QIODevice::ReadOnly)) return {};
  static const QRegularExpression kRow(QStringLiteral(R"(\| \[([^\]]+)\]\(([\w-]+\.md)\) \|)"));
  const QString text = QString::fromUtf8(contents.readAll());
  QList<ManualPage> pages;
  for (auto rows = kRow.globalMatch(text); rows.hasNext();) {
    const auto row = rows.next();
    if (const QString path = manualPage(row.captured(2)); !path.isEmpty()) pages << ManualPage{row.captured(1), path};
  }
  return pages;
}

Synonyms synonymsOf(const QString& typed) {
  static const QStringList kLines = QString::fromStdString(std::string(asset("palette/synonyms.txt"))).split('\n');
  QStringList words, by_beginning;
  const QString query = typed.simplified().toLower();
  for (const QString& line : kLines) {
    const QString word = line.section('=', 0, 0).trimmed();
    if (line.startsWith('#') || word.isEmpty()) continue;
    const bool is_word = query == word || query == word + 's';
    if (is_word || (query.size() >= kShortestBeginning && word.startsWith(query)))
      for (const QString& synonym : line.section('=', 1).split(','))
        (is_word ? words : by_beginning) << synonym.trimmed();
  }
  return words.isEmpty() ? Synonyms{by_beginning} : Synonyms{words, true};
}

QStringList synonymsOfWords(const QString& typed) {
  QStringList words;
  for (const QString& word : typed.split(' '))
    if (const Synonyms synonyms = synonymsOf(word); synonyms.is_whole_word) words << synonyms.words;
  return words;
}

QString withoutFillers(const QString& typed) {
  static const QStringList kFillers = QString::fromStdString(std::string(asset("palette/fillers.txt"))).split('\n');
  QStringList words = typed.split(' ', Qt::SkipEmptyParts);
  words.removeIf([](const QString& word) { return kFillers.contains(word, Qt::CaseInsensitive); });
  return words.isEmpty() ? typed : words.join(' ');
}

QStringList wordsOfManualLike(const QString& typed) {
  static const QRegularExpression kNoWord("[^\\w-]+");
  static std::set<std::string> known;
  for (const PageText& text : known.empty() ? pageTexts() : QList<PageText>())
    for (const QString& word : text.paragraphs.join(' ').toLower().split(kNoWord)) known.insert(word.toStdString());
  QStringList words;
  for (const QString& word : withoutFillers(typed.simplified().toLower()).split(' ')) {
    const auto distance = [&](const std::string& other) { return edit_distance(word.toStdString(), other); };
    const auto nearest = std::ranges::min_element(known, {}, distance);
    if (nearest != known.end() && distance(*nearest) <= std::size_t(word.size()) / 3)
      words << QString::fromStdString(*nearest);
  }
  return words;
}

QList<ManualPage> manualPagesWith(const QString& query) {
  const auto has_query = [&](const PageText& text) {
    return std::ranges::any_of(text.paragraphs,
                               [&](const QString& part) { return part.contains(query, Qt::CaseInsensitive); });
  };
  const QString typed = std::ranges::any_of(pageTexts(), has_query) ? query : withoutFillers(query);
  const QStringList names = synonymsOfWords(typed);
  QList<std::pair<Weight, ManualPage>> found;
  for (const PageText& text : pageTexts()) {
    std::pair<Weight, ManualPage> best{{}, text.page};
    const QStringList synonyms = synonymsOf(typed).words;
    for (const QString& words : QStringList(typed.simplified()) + synonyms) {
      ManualPage hit = text.page;
      hit.words = words.split(' ', Qt::SkipEmptyParts);
      const bool is_title = words.compare(hit.title, Qt::CaseInsensitive) == 0 && words != typed;
      const bool has_all = std::ranges::all_of(
          hit.words, [&](const QString& word) { return !text.paragraphs.filter(word, Qt::CaseInsensitive).isEmpty(); });
      if (const Weight weight = weightOf(text, hit);
          !is_title && has_all && (best.second.words.isEmpty() || weight > best.first))
        best = {weight, hit};
    }
    const qsizetype named = synonyms.indexOf(text.page.title.toLower());
    if (named >= 0) std::get<0>(best.first) += kNamedPage - named;
    if (named >= 0 || !best.second.words.isEmpty() || names.contains(text.page.title.toLower())) found << best;
  }
  std::ranges::stable_sort(found, std::greater{}, &std::pair<Weight, ManualPage>::first);
  QList<ManualPage> pages;
  for (const auto& [weight, page] : found) pages << page;
  return pages;
}

ManualPage manualPageOn(const QString& workspace) {
  static const QMap<QString, QString> kNames{{"Overview", "first-hour.md"},       {"Lessons", "lessons.md"},
                                             {"Router", "router-and-balance.md"}, {"All-to-all", "cluster-model.md"},
                                             {"Microscaling", "precision.md"},    {"Compare", "comparing-runs.md"},
                                             {"Cluster", "cluster-model.md"},     {"Text", "router-and-balance.md"}};
  const QString path = manualPage(kNames.value(workspace));
  for (const ManualPage& page : manualPages())
    if (page.path == path) return page;
  return {};
}

}  // namespace moescope
