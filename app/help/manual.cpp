#include "app/help/manual.h"

#include <QCoreApplication>
#include <QDesktopServices>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QImage>
#include <QLabel>
#include <QListWidget>
#include <QMap>
#include <QPushButton>
#include <QRegularExpression>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextBrowser>
#include <QTextTable>
#include <algorithm>
#include <functional>
#include <tuple>

#include "core/files/assets.h"
#include "core/files/text/words.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr int kTitleRole = Qt::UserRole + 1;
constexpr int kSearchMs = 300;  // pause in typing after which the page is laid out with the hits
constexpr int kManualWidth = 1040, kManualHeight = 720, kPagesWidth = 248;

const QRegularExpression& patternOf(const QString& word);

// Makes pictures as wide as the text.
class ManualText : public QTextBrowser {
 public:
  QVariant loadResource(int type, const QUrl& name) override {
    const QVariant loaded = QTextBrowser::loadResource(type, name);
    if (type != QTextDocument::ImageResource) return loaded;
    const QImage image = QImage::fromData(loaded.toByteArray());
    return image.scaledToWidth(qMin(image.width(), viewport()->width() - 2 * kSpace24), Qt::SmoothTransformation);
  }
};

// Returns the name by which links call a heading: "The account of what was read" is "the-account-of-what-was-read".
QString anchorOf(const QString& heading) {
  static const QRegularExpression kDropped(QStringLiteral("[^\\w\\- ]"));
  return heading.toLower().remove(kDropped).replace(' ', '-');
}

// Sets the spaces between paragraphs, which Markdown does not state, and the lines of tables.
void formatPage(QTextDocument* document, const QColor& line) {
  document->setDocumentMargin(kSpace16);
  for (QTextBlock block = document->begin(); block.isValid(); block = block.next()) {
    QTextBlockFormat format;
    format.setTopMargin(block.blockFormat().headingLevel() > 0 ? kSpace16 : 0);
    format.setBottomMargin(block.textList() ? kSpace4 : kSpace8);
    QTextCursor cursor(block);
    const bool is_code = block.blockFormat().hasProperty(QTextFormat::BlockCodeLanguage);
    if (is_code) format = QTextBlockFormat();
    format.setNonBreakableLines(false);  // wraps long command lines
    if (!cursor.currentTable()) cursor.mergeBlockFormat(format);
  }
  for (QTextFrame* frame : document->rootFrame()->childFrames())
    if (auto* table = qobject_cast<QTextTable*>(frame)) {
      QTextTableFormat format = table->format();
      format.setWidth(QTextLength(QTextLength::PercentageLength, 99));
      format.setBorder(1);
      format.setBorderBrush(line);
      format.setBorderCollapse(true);
      format.setCellPadding(kSpace4);
      format.setCellSpacing(0);
      table->setFormat(format);
    }
}

}  // namespace

ManualWindow::ManualWindow(QWidget* parent)
    : QDialog(parent),
      pages_(new QListWidget),
      query_(new QLineEdit),
      missing_(new QLabel("Not in the manual")),
      text_(new ManualText) {
  setObjectName("manual_window");
  setWindowTitle("Manual");
  setAttribute(Qt::WA_DeleteOnClose);
  auto* back = new QPushButton("Back");
  back->setEnabled(false);
  back->setAutoDefault(false);
  query_->setPlaceholderText("Search the manual");
  query_->setAccessibleName("Search the manual");
  query_->setClearButtonEnabled(true);
  pages_->setAccessibleName("Pages");
  pages_->setSpacing(2);
  pages_->setFixedWidth(withType(kPagesWidth, fontMetrics()));
  for (const ManualPage& page : manualPages()) {
    auto* item = new QListWidgetItem(page.title, pages_);
    item->setData(Qt::UserRole, page.path);
    item->setData(kTitleRole, page.title);
  }
  text_->setAccessibleName("Page");
  text_->setOpenLinks(false);
  text_->setWordWrapMode(QTextOption::WordWrap);  // so that tables do not break names within words
  missing_->hide();
  auto* column = plainColumn(this, kSpace8);
  column->setContentsMargins(kSpace12, kSpace12, kSpace12, kSpace12);
  auto* top = plainRow(kSpace8);
  column->addLayout(top);
  top->addWidget(back);
  top->addWidget(query_, 1);
  top->addWidget(missing_);
  auto* row = plainRow(kSpace8);
  column->addLayout(row, 1);
  row->addWidget(pages_);
  row->addWidget(text_, 1);
  connect(back, &QPushButton::clicked, text_, &QTextBrowser::backward);
  connect(text_, &QTextBrowser::backwardAvailable, back, &QWidget::setEnabled);
  connect(text_, &QTextBrowser::anchorClicked, this, &ManualWindow::follow);
  connect(text_, &QTextBrowser::sourceChanged, this, &ManualWindow::markPage);
  connect(pages_, &QListWidget::itemClicked, this, [this](const QListWidgetItem* item) {
    showPage(QUrl::fromLocalFile(item->data(Qt::UserRole).toString()));
    showHit(-1);
  });
  connect(query_, &QLineEdit::returnPressed, this, [this] { search(text_->textCursor().position()); });
  connect(query_, &QLineEdit::textEdited, &pause_, qOverload<>(&QTimer::start));
  pause_.setSingleShot(true);
  pause_.setInterval(kSearchMs);
  connect(&pause_, &QTimer::timeout, this, [this] {
    const QString best = listHits();
    if (!best.isEmpty() && best != text_->source().toLocalFile()) showPage(QUrl::fromLocalFile(best));
    search(-1);
  });
  const QSize wanted_size(withType(kManualWidth, fontMetrics()), withType(kManualHeight, fontMetrics()));
  resize(wanted_size.boundedTo(parent->window()->size() - QSize(2 * kSpace24, 2 * kSpace24)));
  query_->setFocus();
}

void ManualWindow::showPage(const QUrl& page) {
  text_->document()->setLayoutEnabled(false);  // else each cell of a table lays out the page anew, for seconds
  text_->setSource(page, QTextDocument::MarkdownResource);
  text_->document()->setLayoutEnabled(true);
  text_->document()->markContentsDirty(0, text_->document()->characterCount());
  if (page.fragment().isEmpty()) return;
  for (QTextBlock block = text_->document()->begin(); block.isValid(); block = block.next())
    if (block.blockFormat().headingLevel() > 0 && anchorOf(block.text()) == page.fragment()) {
      text_->moveCursor(QTextCursor::End);  // so that the heading comes to the top of the view
      text_->setTextCursor(QTextCursor(block));
    }
}

void ManualWindow::follow(const QUrl& link) {
  const QUrl target = text_->source().resolved(link);
  if (target.path().endsWith(".md") && target.isLocalFile())
    showPage(target);
  else
    QDesktopServices::openUrl(target);
}

void ManualWindow::markPage(const QUrl& source) {
  formatPage(text_->document(), QColor(colors(palette()).hairline));
  for (int row = 0; row < pages_->count(); ++row)
    if (pages_->item(row)->data(Qt::UserRole).toString() == source.toLocalFile()) pages_->setCurrentRow(row);
}

QStringList ManualWindow::words() const {
  const auto hit = std::ranges::find(hits_, text_->source().toLocalFile(), &ManualPage::path);
  return hit == hits_.end() ? QStringList() : hit->words;
}

// Lists the pages with what is searched, with the number of places. Returns the path of the first of them.
QString ManualWindow::listHits() {
  const ManualHits hits = isSearching() ? manualHits(query_->text()) : ManualHits();
  hits_ = hits.pages;
  missing_->setVisible(!hits.similar.isEmpty());
  missing_->setText(hits.similar.isEmpty() ? QString("Not in the manual")
                                           : QString("Not in the manual; nearest: %1").arg(hits.similar));
  for (int row = 0; row < pages_->count(); ++row) {
    QListWidgetItem* item = pages_->item(row);
    const QString title = item->data(kTitleRole).toString();
    const auto hit = std::ranges::find(hits_, item->data(Qt::UserRole).toString(), &ManualPage::path);
    item->setText(hit != hits_.end() && hit->places > 0 ? QString("%1 (%2)").arg(title).arg(hit->places) : title);
    item->setHidden(!hits_.isEmpty() && hit == hits_.end());
  }
  return hits_.value(0).path;
}

// Marks the words, and shows the next paragraph with most of them in the middle of the view.
bool ManualWindow::showHit(int behind) {
  QList<QTextEdit::ExtraSelection> marks;
  const auto number = [this](const QTextBlock& block) {
    return std::ranges::count_if(words(), [&](const QString& word) { return block.text().contains(patternOf(word)); });
  };
  qsizetype word_count = 1;
  const QTextBlock first = text_->document()->begin();
  for (QTextBlock block = first; block.isValid(); block = block.next())
    word_count = std::max(word_count, number(block));
  QTextBlock hit = first;
  while (hit.isValid() && (hit.position() <= behind || number(hit) < word_count)) hit = hit.next();
  const Colors& c = colors(palette());
  QTextCharFormat shown, other;
  shown.setBackground(QColor(c.accent));
  shown.setForeground(QColor(c.on_accent));
  other.setBackground(QColor(c.accent_soft));
  for (const QString& word : words())
    for (QTextCursor at; !(at = text_->document()->find(patternOf(word), at)).isNull();)
      marks.append({at, at.block() == hit ? shown : other});
  text_->setExtraSelections(marks);
  if (!hit.isValid()) return false;
  text_->setTextCursor(QTextCursor(hit));
  QScrollBar* bar = text_->verticalScrollBar();
  bar->setValue(bar->value() + text_->cursorRect().top() - text_->viewport()->height() / 2);
  return true;
}

void ManualWindow::search(int behind) {
  const QString best = listHits();
  const QListWidgetItem* shown = pages_->currentItem();
  if (!best.isEmpty() && (!shown || shown->isHidden())) {
    showPage(QUrl::fromLocalFile(best));
    behind = -1;
  }
  bool found = !isSearching() || (!best.isEmpty() && (showHit(behind) || words().isEmpty()));
  for (int n = 1, row = qMax(0, pages_->currentRow()); n <= pages_->count() && !best.isEmpty() && !found; ++n) {
    const QListWidgetItem* item = pages_->item((row + n) % pages_->count());
    if (item->isHidden()) continue;
    showPage(QUrl::fromLocalFile(item->data(Qt::UserRole).toString()));
    found = showHit(-1) || words().isEmpty();
  }
  if (found) return;
  text_->setExtraSelections({});
  missing_->show();
}

void ManualWindow::searchFor(const QString& text) {
  query_->setText(text);
  search(-1);
}

ManualWindow* openManualPage(QWidget* parent, const QString& path) {
  auto* manual = parent->window()->findChild<ManualWindow*>();
  if (!manual) manual = new ManualWindow(parent->window());
  manual->show();
  manual->raise();
  const QString file = path.section('#', 0, 0);
  QUrl page = QUrl::fromLocalFile(QFileInfo(file).isAbsolute() ? file : manualPage(file));
  page.setFragment(path.section('#', 1));
  manual->showPage(page);
  return manual;
}

namespace {

constexpr int kTreeLevels = 4;                   // levels from a program in a build folder up to its source tree
constexpr int kShortestBeginning = 3;            // letters of a synonym that are enough
constexpr std::size_t kLettersPerError = 4;      // of a word that is spelled otherwise, whose first letter is right
constexpr int kNamedPage = 1000, kPerName = 10;  // words in a title for which a page's first name and later ones count

struct PageText {
  ManualPage page;
  QStringList paragraphs;  // and rows of tables
  QStringList headers;     // of each paragraph: the names of the columns if it is the row of a table
  QString headings;        // with the first cells of the rows of tables
};

// The row below the names of the columns is "|---|".
QStringList headersOf(const QStringList& paragraphs) {
  QStringList headers;
  QString header;
  for (qsizetype i = 0; i < paragraphs.size(); ++i) {
    if (paragraphs.value(i + 1).startsWith("|--")) header = paragraphs[i];
    headers << (paragraphs[i].startsWith('|') && paragraphs[i] != header ? header : QString());
  }
  return headers;
}

const QList<PageText>& pageTexts() {
  static QList<PageText> texts;
  if (!texts.isEmpty()) return texts;
  static const QRegularExpression kHeading(R"(^(?:#+ |\| )([^|\n]+))", QRegularExpression::MultilineOption);
  for (const ManualPage& page : manualPages()) {
    QFile file(page.path);
    if (!file.open(QIODevice::ReadOnly)) continue;
    QString whole = QString::fromUtf8(file.readAll());
    PageText text{page, {}, {}, {}};
    for (const auto& heading : kHeading.globalMatch(whole)) text.headings += heading.captured(1) + '\n';
    text.paragraphs = whole.replace("\n|", "\n\n|").split("\n\n");
    text.headers = headersOf(text.paragraphs);
    texts << text;
  }
  return texts;
}

// Returns the part that forms of a word share: "grad" of grade, grades and grading, "all to all" of all-to-all.
QString stemOf(const QString& words) {
  static const QRegularExpression kEnding("(?<=\\w{3})(es|ed|ing|ions?|s|e)$");
  return QString(words).replace('-', ' ').remove(kEnding);
}

// Finds a word with its forms, "route" in "routed", but not in "router". A word that no page has is found inside
// others.
const QRegularExpression& patternOf(const QString& word) {
  static QHash<QString, QRegularExpression> patterns;
  QRegularExpression& pattern = patterns[word];
  if (!pattern.pattern().isEmpty()) return pattern;
  const QString stem = QRegularExpression::escape(stemOf(word)).replace("\\ ", "[ -]");
  pattern = QRegularExpression("\\b" + stem + "(e|es|ed|s|ing|ions?)?\\b", QRegularExpression::CaseInsensitiveOption);
  const auto has_word = [&](const PageText& text) { return !text.paragraphs.filter(pattern).isEmpty(); };
  if (std::ranges::none_of(pageTexts(), has_word))
    pattern = QRegularExpression(QRegularExpression::escape(word), QRegularExpression::CaseInsensitiveOption);
  return pattern;
}

struct SynonymLine {
  QString word, stem;
  QStringList synonyms;
};

const QList<SynonymLine>& synonymLines() {
  static const QList<SynonymLine> kLines = [] {
    QList<SynonymLine> lines;
    for (const QString& line : QString::fromStdString(std::string(asset("palette/synonyms.txt"))).split('\n')) {
      if (line.isEmpty() || line.startsWith('#')) continue;
      const QString word = line.section('=', 0, 0).trimmed();
      lines << SynonymLine{word, stemOf(word), {}};
      for (const QString& synonym : line.section('=', 1).split(',')) lines.back().synonyms << synonym.trimmed();
    }
    return lines;
  }();
  return kLines;
}

using Weight = std::tuple<qsizetype, qsizetype, qsizetype>;  // words in the title and in headings, places

// Returns the name of a page in the table of synonyms.
QString nameOf(const ManualPage& page) {
  return "manual: " + page.title.toLower();
}

// Counts the paragraphs with all words of `hit`. The names of its columns belong to each row of a table.
Weight weightOf(const PageText& text, ManualPage& hit) {
  qsizetype in_title = 0, in_headings = 0;
  for (const QString& word : hit.words) {
    in_title += text.page.title.contains(patternOf(word));
    in_headings += text.headings.contains(patternOf(word));
  }
  hit.places = 0;
  for (qsizetype i = 0; i < text.paragraphs.size(); ++i) {
    const auto in = [&](const QString& part) {
      return [&part](const QString& word) { return part.contains(patternOf(word)); };
    };
    hit.places += std::ranges::any_of(hit.words, in(text.paragraphs[i])) &&
                  std::ranges::all_of(hit.words, in(text.headers[i] + text.paragraphs[i]));
  }
  if (hit.places > 0) in_headings += hit.words.size();  // more than words in different places
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
  QStringList words, by_beginning;
  const QString query = typed.simplified().toLower(), stem = stemOf(query);
  for (const SynonymLine& line : synonymLines())
    if (stem == line.stem)
      words << line.synonyms;
    else if (query.size() >= kShortestBeginning && line.word.startsWith(query))
      by_beginning << line.synonyms;
  return words.isEmpty() ? Synonyms{by_beginning} : Synonyms{words, true};
}

Synonyms synonymsOfWords(const QString& typed) {
  QStringList words = typed.split(' ', Qt::SkipEmptyParts);
  Synonyms all;
  QList<QStringList> parts;
  qsizetype longest = 0;
  for (qsizetype length = words.size(); length > 0; --length)
    for (qsizetype first = 0; first + length <= words.size(); ++first) {
      const Synonyms synonyms = synonymsOf(words.mid(first, length).join(' '));
      if (!synonyms.is_whole_word) continue;
      parts << synonyms.words;
      all.is_whole_word = true;
      longest = std::max(longest, length);
      for (qsizetype i = first; i < first + length; ++i) words[i] = "-";  // not its parts, too
    }
  bool is_more = true;  // the best synonym of each part comes before the second ones
  for (qsizetype place = 0; std::exchange(is_more, false); ++place)
    for (const QStringList& synonyms : parts) {
      if (place < synonyms.size()) all.words << synonyms[place];
      is_more = is_more || place + 1 < synonyms.size();
    }
  const auto is_number = [](const QString& word) { return word[0].isDigit(); };
  all.is_part = 2 * longest <= words.size() - std::ranges::count_if(words, is_number);
  return all;
}

QString withoutFillers(const QString& typed) {
  static const QStringList kFillers = QString::fromStdString(std::string(asset("palette/fillers.txt"))).split('\n');
  QString named = typed;  // names with fillers stay whole: "all to all" is "all-to-all"
  for (const SynonymLine& line : synonymLines())
    if (line.word.contains('-')) named.replace(QString(line.word).replace('-', ' '), line.word, Qt::CaseInsensitive);
  QStringList words = named.split(' ', Qt::SkipEmptyParts);
  words.removeIf([](const QString& word) { return kFillers.contains(word, Qt::CaseInsensitive); });
  return words.isEmpty() ? typed : words.join(' ');
}

QStringList wordsOf(const QString& text) {
  static const QRegularExpression kNoWord("[^\\w-]+");
  return text.toLower().split(kNoWord, Qt::SkipEmptyParts);
}

QString joinedWords(const QString& text) {
  QString joined = text.toLower();
  return joined.removeIf([](QChar letter) { return letter == '-' || letter == '_' || letter == ' '; });
}

QString spelledLike(const QString& typed, QSet<QString> known, bool drops_others) {
  static const QSet<QString> kWords = [] {
    QString text;
    for (const PageText& page : pageTexts()) text += page.paragraphs.join(' ') + ' ';
    for (const SynonymLine& line : synonymLines()) text += line.word + ' ';
    const QStringList words = wordsOf(text);
    return QSet<QString>(words.begin(), words.end());
  }();
  known += kWords;
  QStringList words;
  for (const QString& word : typed.simplified().toLower().split(' ')) {
    const std::size_t most_errors = std::max<std::size_t>(1, word.size() / kLettersPerError);
    std::pair<std::size_t, QString> nearest{most_errors + 1, QString()};
    if (std::ranges::any_of(known, [&](const QString& other) { return other.startsWith(word); })) nearest = {0, word};
    for (const QString& other : nearest.first > 0 ? known : QSet<QString>())
      if (other.startsWith(word.left(1)))
        nearest = std::min(nearest, {edit_distance(word.toStdString(), other.toStdString()), other});
    if (nearest.first <= most_errors || !drops_others) words << (nearest.first <= most_errors ? nearest.second : word);
  }
  return words.join(' ');
}

QList<ManualPage> manualPagesWith(const QString& query) {
  const auto has_query = [&](const PageText& text) {
    return std::ranges::any_of(text.paragraphs,
                               [&](const QString& part) { return part.contains(query, Qt::CaseInsensitive); });
  };
  const bool is_known = synonymsOf(query).is_whole_word || std::ranges::any_of(pageTexts(), has_query);
  const QString typed = is_known ? query : withoutFillers(query);
  const QStringList names = synonymsOfWords(typed).words, synonyms = synonymsOf(typed).words;
  QList<std::pair<Weight, ManualPage>> found;
  for (const PageText& text : pageTexts()) {
    std::pair<Weight, ManualPage> best{{}, text.page};
    for (const QString& words : QStringList(typed.simplified()) + synonyms) {
      ManualPage hit = text.page;
      hit.words = withoutFillers(words).split(' ', Qt::SkipEmptyParts);
      const bool is_title = words.compare(hit.title, Qt::CaseInsensitive) == 0 && words != typed;
      const bool has_all = std::ranges::all_of(
          hit.words, [&](const QString& word) { return !text.paragraphs.filter(patternOf(word)).isEmpty(); });
      if (const Weight weight = weightOf(text, hit);
          !is_title && has_all && (best.second.words.isEmpty() || weight > best.first))
        best = {weight, hit};
    }
    const qsizetype named = synonyms.indexOf(nameOf(text.page));
    if (named >= 0) std::get<0>(best.first) += kNamedPage - kPerName * named;
    const qsizetype part_index = names.indexOf(nameOf(text.page));
    if (named < 0 && part_index >= 0 && !best.second.words.isEmpty())
      std::get<0>(best.first) += kNamedPage / 2 - kPerName * part_index;
    if (named >= 0 || !best.second.words.isEmpty() || part_index >= 0) found << best;
  }
  std::ranges::stable_sort(found, std::greater{}, &std::pair<Weight, ManualPage>::first);
  QList<ManualPage> pages;
  for (const auto& [weight, page] : found) pages << page;
  return pages;
}

ManualHits manualHits(const QString& typed) {
  ManualHits hits{manualPagesWith(typed)};
  if (!hits.pages.isEmpty()) return hits;
  QStringList near = spelledLike(withoutFillers(typed), {}, true).split(' ', Qt::SkipEmptyParts);
  while (hits.pages.isEmpty() && !near.isEmpty()) {
    hits = {manualPagesWith(near.join(' ')), near.join(' ')};
    near.erase(std::ranges::min_element(near, {}, &QString::size));
  }
  return hits.pages.isEmpty() ? ManualHits() : hits;
}

ManualPage manualPageOn(const QString& workspace) {
  static const QMap<QString, QString> kNames{{"Overview", "first-hour.md"},       {"Lessons", "lessons.md"},
                                             {"Router", "router-and-balance.md"}, {"All-to-all", "cluster-model.md"},
                                             {"Microscaling", "precision.md"},    {"Compare", "comparing-runs.md"},
                                             {"Cluster", "cluster-model.md"},     {"Text", "text.md"}};
  const QString path = manualPage(kNames.value(workspace));
  for (const ManualPage& page : manualPages())
    if (page.path == path) return page;
  return {};
}

}  // namespace moescope
