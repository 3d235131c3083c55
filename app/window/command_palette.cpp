#include "app/window/command_palette.h"

#include <QHash>
#include <QKeyEvent>
#include <QPainter>
#include <QRegularExpression>
#include <QSet>
#include <QStyledItemDelegate>
#include <QTextLayout>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <span>

#include "core/files/text/words.h"
#include "core/numerics/index.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {

namespace {

constexpr int kPaletteWidth = 680, kPaletteRows = 14, kKindColumn = 128;
constexpr int kInTitle = 200;             // what a word in the title counts; at the beginning of a word twice as much
constexpr int kAsTyped = 10000;           // a title with what is typed counts more than a synonym of its beginning,
constexpr int kAsSynonym = 200000;        // but less than a synonym of the whole word,
constexpr int kPerSynonym = 20000;        // the first one most,
constexpr int kAsFinding = 400000;        // and a finding about the open runs most
constexpr int kPart = 100000;             // what a typed word counts that one name alone has, if no name has all words
constexpr qsizetype kShortestJoined = 4;  // letters of a name that may be typed in one word, or in several

// Paints a command's name and other name, with the matched letters in bold, and at the right its keys and its group.
class CommandDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex&) const override {
    return {option.fontMetrics.averageCharWidth() * 20, withType(kFieldHeight, option.fontMetrics)};
  }

  void paint(QPainter* painter, const QStyleOptionViewItem& item_option, const QModelIndex& index) const override {
    const bool chosen = item_option.state & QStyle::State_Selected;
    const Colors& c = colors(item_option.palette);
    painter->fillRect(item_option.rect, QColor(c.popup));
    if (chosen) drawRounded(*painter, item_option.rect, kRadiusControl, QColor(c.accent_soft), Qt::transparent);
    QRect room = item_option.rect.adjusted(kSpace8, 0, -kSpace8, 0);
    painter->setFont(item_option.font);
    painter->setPen(QColor(c.ink2));
    const int kind = withType(kKindColumn, item_option.fontMetrics);
    painter->drawText(QRect(room.right() - kind, room.top(), kind, room.height()), Qt::AlignLeft | Qt::AlignVCenter,
                      index.data(CommandList::kEffect).toString());
    room.setRight(room.right() - kind - kSpace12);
    const QString keys = index.data(CommandList::kKeys).toString();
    painter->drawText(room, Qt::AlignRight | Qt::AlignVCenter, keys);
    room.setRight(room.right() - item_option.fontMetrics.horizontalAdvance(keys) - kSpace16);
    const int used = paintTitle(painter, room, item_option.font, QColor(c.ink), index);
    room.setLeft(room.left() + used + kSpace12);
    painter->setPen(QColor(c.ink2));
    painter->drawText(
        room, Qt::AlignLeft | Qt::AlignVCenter,
        elidedWords(index.data(CommandList::kAlso).toString(), item_option.fontMetrics, std::max(0, room.width())));
  }

 private:
  static int paintTitle(QPainter* painter, const QRect& rect, const QFont& font, const QColor& color,
                        const QModelIndex& index) {
    const QString title = index.data(Qt::DisplayRole).toString();
    QTextLayout layout(QFontMetrics(font).elidedText(title, Qt::ElideRight, rect.width()), font);
    QList<QTextLayout::FormatRange> bold;
    for (const QVariant& at : index.data(CommandList::kMatched).toList()) {
      QTextCharFormat format;
      format.setFontWeight(QFont::DemiBold);
      format.setFontUnderline(true);
      bold.append({at.toInt(), 1, format});
    }
    layout.setFormats(bold);
    layout.beginLayout();
    QTextLine line = layout.createLine();
    line.setLineWidth(100000);
    layout.endLayout();
    painter->save();
    painter->setClipRect(rect);
    painter->setPen(color);
    layout.draw(painter, QPointF(rect.left(), rect.center().y() - line.height() / 2 + 0.5));
    painter->restore();
    return static_cast<int>(line.naturalTextWidth());
  }
};

// Says what Return does. The title of an entry of a menu says it.
QString effectOf(const PaletteCommand& command) {
  static const QHash<QString, QString> kEffects{
      {"Expert", "show expert"},    {"Finding", "show finding"}, {"Format", "explain format"},
      {"Layer", "select layer"},    {"Lesson", "start lesson"},  {"Metric", "explain metric"},
      {"Recent file", "open file"}, {"Setting", "show setting"}, {"Term", "explain term"}};
  if (command.title.startsWith("Start a preset: ")) return "start training";
  if (command.title.startsWith("Panel: ")) return "show, " + command.group;
  if (command.title.startsWith("Manual: ")) return "Manual";
  return kEffects.value(command.group, command.group);
}

// Returns the words with a number behind them: "expert 12" of "why is expert 12 dead".
QStringList numberedPlaces(const QString& typed) {
  static const QRegularExpression kPlace(QStringLiteral("\\w+ \\d[\\d,]*"));
  QStringList places;
  for (const auto& place : kPlace.globalMatch(typed)) places << place.captured();
  return places;
}

// Returns the place of `part` in `text`, preferably at the beginning of a word; -1: `text` does not contain it. A
// number is no part of a longer one.
int placeOfPart(const QString& part, const QString& text) {
  int place = -1, at = -1;
  const auto is_digit = [&](qsizetype i) { return i >= 0 && i < text.size() && text[i].isDigit(); };
  while ((at = to_int(text.indexOf(part, at + 1, Qt::CaseInsensitive))) >= 0) {
    if (part[0].isDigit() && (is_digit(at - 1) || is_digit(at + part.size()))) continue;
    if (at == 0 || !text[at - 1].isLetterOrNumber()) return at;
    if (place < 0) place = at;
  }
  return place;
}

}  // namespace

CommandList::CommandList(std::vector<PaletteCommand> commands, QObject* parent)
    : QAbstractListModel(parent), commands_(std::move(commands)), known_(commands_.size()) {
  setQuery({});
}

// Finds each typed word in the title, the group or the other names. Beginnings of words of a short title count most.
// Also finds names that are written with other hyphens and blanks.
std::optional<CommandList::Shown> CommandList::found(std::size_t command, const QString& query) const {
  const PaletteCommand& candidate = commands_[command];
  Shown shown{.command = command, .score = -to_int(candidate.title.size()), .matched = {}};
  const QString other_names = candidate.group + ' ' + candidate.also + ' ' + QString(candidate.title).remove('-');
  if (const QString name = joinedWords(query); name.size() >= kShortestJoined &&
                                               joinedWords(candidate.title).contains(name) &&
                                               !candidate.title.contains(query, Qt::CaseInsensitive)) {
    shown.score += 2 * kInTitle;
    return shown;
  }
  for (const QString& word : query.split(' ', Qt::SkipEmptyParts)) {
    const int at = placeOfPart(word, candidate.title);
    if (at < 0 && placeOfPart(word, other_names) < 0) return std::nullopt;
    const bool begins = at == 0 || (at > 0 && !candidate.title[at - 1].isLetterOrNumber());
    if (at >= 0) shown.score += begins ? 2 * kInTitle : kInTitle;
    for (int i = 0; at >= 0 && i < word.size(); ++i) shown.matched.push_back(at + i);
  }
  return shown;
}

void CommandList::setQuery(const QString& query) {
  beginResetModel();
  QString typed = query.simplified();
  static const QRegularExpression kQuestion(
      "^(what (is|are)|why|how (does|do (?!i\\b))|define|explain)\\b| (mean|meaning)$",
      QRegularExpression::CaseInsensitiveOption);
  asks_meaning_ = typed.contains(kQuestion) && numberedPlaces(typed).isEmpty();
  list(typed);
  has_match_ = !shown_.empty();
  if (!has_match_) {
    if (const QString spelled = wordsSpelledLike(typed); spelled != typed) list(typed = spelled);
  }
  const auto is_for_typed = [this](const Shown& shown) { return shown.command >= known_; };
  if (std::ranges::all_of(shown_, is_for_typed)) listByParts(withoutFillers(typed));
  if (!typed.isEmpty()) std::ranges::stable_sort(shown_, std::greater{}, &Shown::score);
  endResetModel();
}

void CommandList::list(QString typed) {
  shown_.clear();
  const auto is_named = [&, joined = joinedWords(typed)](const PaletteCommand& command) {
    return joinedWords(command.title).contains(joined) || command.also.contains(typed, Qt::CaseInsensitive);
  };
  const bool names_none = std::ranges::none_of(std::span(commands_).first(known_), is_named);
  if (names_none) typed = withoutFillers(typed);
  commands_.erase(commands_.begin() + known_, commands_.end());
  for (std::size_t i = 0; i < known_; ++i)
    for (const PaletteCommand& command :
         commands_[i].typed_commands ? commands_[i].typed_commands(typed) : std::vector<PaletteCommand>())
      commands_.push_back(command);
  Synonyms synonyms = synonymsOf(typed);
  if (names_none && synonyms.words.isEmpty()) synonyms = synonymsOfWords(typed);
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    std::optional<Shown> best = commands_[i].typed_commands ? std::nullopt : bestOf(i, typed, synonyms);
    if (!best) continue;
    if (best->synonym >= 0 && synonyms.is_whole_word) best->score += kAsSynonym - (1 + best->synonym) * kPerSynonym;
    best->score += priority(*best, typed, synonyms);
    shown_.push_back(std::move(*best));
  }
}

// Finds a command by what is typed, a command for what is typed also by a numbered place in it, or the first synonym.
std::optional<CommandList::Shown> CommandList::bestOf(std::size_t command, const QString& typed,
                                                      const Synonyms& synonyms) const {
  if (!synonyms.is_whole_word)
    if (auto shown = found(command, typed)) return shown;
  for (int s = 0; s < synonyms.words.size(); ++s) {
    const QString& word = synonyms.words[s];
    const bool is_for_typed = command >= known_;
    const QString names = commands_[command].title + (is_for_typed ? ' ' + commands_[command].also : QString());
    if (!names.contains(word, Qt::CaseInsensitive)) continue;
    auto shown = found(command, word);
    if (!shown) continue;
    shown->synonym = s;
    if (word != typed) shown->matched.clear();
    return shown;
  }
  if (auto shown = found(command, typed)) return shown;
  for (const QString& place : command < known_ ? QStringList() : numberedPlaces(typed))
    if (auto shown = found(command, place)) {
      shown->score += kAsSynonym - kAsFinding;  // below findings that have all words
      return shown;
    }
  return std::nullopt;
}

// What the window has comes before terms, and these before pages of the manual with the words, in their order. A page
// that is meant and has all words comes before names for some of the words. For a question, explanations come first,
// then pages of the manual.
int CommandList::priority(const Shown& shown, const QString& typed, const Synonyms& synonyms) const {
  const std::size_t index = shown.command;
  const PaletteCommand& command = commands_[index];
  const bool is_for_typed = index >= known_;
  if (command.group == QLatin1String("Manual") || command.title.startsWith("Manual: ")) {
    const bool is_meant = synonyms.words.contains("manual: " + command.title.section(": ", -1).toLower());
    const int order = is_for_typed ? to_int(index - known_) * kInTitle : 0;
    const int unmeant = is_for_typed && asks_meaning_ ? kAsSynonym : -kAsFinding;
    return (is_for_typed && synonyms.is_part && is_meant ? kAsFinding : unmeant) - order;
  }
  if (is_for_typed) return kAsFinding;
  if (command.group == QLatin1String("Finding")) return shown.synonym < 0 ? kAsFinding : 0;
  const bool is_in_title = command.title.contains(typed, Qt::CaseInsensitive);
  static const QStringList kMeanings{"Term", "Metric", "Format"};
  const bool explains = kMeanings.contains(command.group) || command.title.startsWith("Explain ");
  const QString name = command.title.section(": ", -1),
                subject = asks_meaning_ ? joinedWords(withoutFillers(name)) : name;
  const bool is_exact = subject == joinedWords(typed) || command.also == typed;
  const bool is_meant = shown.synonym == 0 && name.startsWith(synonyms.words[0].section(": ", -1), Qt::CaseInsensitive);
  if (asks_meaning_ && explains && (is_exact || is_meant || subject.contains(joinedWords(typed))))
    return 3 * kAsFinding + (is_exact ? kAsTyped : 0);
  if (asks_meaning_ && !explains) return -kAsSynonym;
  if (command.also.compare(typed, Qt::CaseInsensitive) == 0) return 2 * kAsTyped;  // its name in files
  if (command.also.split(" | ").contains(typed, Qt::CaseInsensitive)) return kAsSynonym;
  if (synonyms.is_part && shown.synonym < 0 && typed.contains(' ')) return 2 * kAsFinding;  // it has all words
  const bool is_term = command.group == QLatin1String("Term");
  if (is_term && command.title.compare("Term: " + typed, Qt::CaseInsensitive) == 0) return kAsTyped + kInTitle;
  return !is_term && is_in_title ? kAsTyped : 0;
}

// Adds the commands with some of the typed words. A word counts the more, the fewer names have it.
void CommandList::listByParts(const QString& typed) {
  const auto has = [&](std::size_t command, const QString& word) {
    const QStringList words = wordsOf(commands_[command].title + ' ' + commands_[command].also);
    return std::ranges::any_of(words, [&](const QString& other) { return other.startsWith(word); });
  };
  std::vector<int> scores(known_);
  for (const QString& word : typed.split(' ', Qt::SkipEmptyParts)) {
    std::vector<std::size_t> with_word;
    for (std::size_t i = 0; i < known_; ++i)
      if (!commands_[i].typed_commands && has(i, word)) with_word.push_back(i);
    for (const std::size_t i : with_word)
      scores[i] += (placeOfPart(word, commands_[i].title) >= 0 ? 2 : 1) * kPart / to_int(with_word.size());
  }
  const int best = scores.empty() ? 0 : std::ranges::max(scores);
  for (std::size_t i = 0; i < known_; ++i)
    if (scores[i] > 0 && 2 * scores[i] >= best)
      shown_.push_back(
          {.command = i, .score = scores[i] - to_int(commands_[i].title.size()) - kAsFinding, .matched = {}});
}

// Returns the typed words, and for those that no name has, the most similar word of the names, synonyms and manual.
QString CommandList::wordsSpelledLike(const QString& typed) const {
  QSet<QString> known;
  for (const PaletteCommand& command : std::span(commands_).first(known_))
    for (const QString& word : wordsOf(command.title + ' ' + command.also)) known << word;
  return spelledLike(withoutFillers(typed), known);
}

int CommandList::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : to_int(shown_.size());
}

QVariant CommandList::data(const QModelIndex& index, int role) const {
  const PaletteCommand& command = at(index.row());
  switch (role) {
    case Qt::DisplayRole:
      return command.title;
    case Qt::AccessibleTextRole:
      return command.keys.isEmpty() ? command.title : command.title + ", " + command.keys;
    case kGroup:
      return command.group;
    case kEffect:
      return effectOf(command);
    case kKeys:
      return command.keys;
    case kAlso:
      return command.also;
    case kMatched: {
      QVariantList places;
      for (const int at : shown_[index.row()].matched) places << at;
      return places;
    }
    default:
      return {};
  }
}

CommandPalette::CommandPalette(std::vector<PaletteCommand> commands, QWidget* window)
    : QDialog(window, Qt::Dialog | Qt::FramelessWindowHint) {
  setObjectName("command_palette");
  setWindowTitle("Search");
  setAttribute(Qt::WA_DeleteOnClose);
  setModal(true);
  query_ = new QLineEdit;
  query_->setPlaceholderText(
      "Find an action, panel, metric, setting, format, expert, step, finding, lesson, page or file");
  query_->setAccessibleName("Command");
  query_->setClearButtonEnabled(true);
  commands_ = new CommandList(std::move(commands), this);
  list_ = new QListView;
  list_->setModel(commands_);
  list_->setItemDelegate(new CommandDelegate(list_));
  list_->setUniformItemSizes(true);
  list_->setFocusPolicy(Qt::NoFocus);
  list_->setFrameShape(QFrame::NoFrame);
  list_->setAccessibleName("Commands");
  list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  nothing_found_ = new QLabel;
  nothing_found_->setMargin(kSpace8);
  column->addWidget(query_);
  column->addWidget(nothing_found_);
  column->addWidget(list_, 1);
  query_->installEventFilter(this);
  connect(query_, &QLineEdit::textChanged, this, &CommandPalette::search);
  connect(list_, &QListView::clicked, this, &CommandPalette::runCurrent);
  const int width = std::min(withType(kPaletteWidth, fontMetrics()), window->width() - 2 * kSpace24);
  setFixedWidth(width);
  search({});
  move(window->mapToGlobal(QPoint((window->width() - width) / 2, 60)));
  query_->setFocus();
}

void CommandPalette::search(const QString& text) {
  commands_->setQuery(text);
  nothing_found_->setVisible(!commands_->hasMatch());
  nothing_found_->setText(QString("Nothing is called \"%1\"%2")
                              .arg(text.simplified(), commands_->rowCount() > 0 ? QString(". Similar names:") : ""));
  // Return must not start a command that only has a similar name.
  list_->setCurrentIndex(commands_->hasMatch() ? commands_->index(0) : QModelIndex());
  list_->scrollToTop();
  // Only as high as the commands that are listed.
  list_->setFixedHeight(std::min(commands_->rowCount(), kPaletteRows) * std::max(1, list_->sizeHintForRow(0)));
  adjustSize();
}

void CommandPalette::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), QColor(colors(palette()).popup));
  painter.setPen(QColor(colors(palette()).field_border));
  painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

// Closes the palette before the command runs, which may open a dialog.
void CommandPalette::runCurrent() {
  const QModelIndex current = list_->currentIndex();
  if (!current.isValid()) return;
  const auto run = commands_->at(current.row()).run;
  QWidget* window = parentWidget();
  accept();
  QTimer::singleShot(0, window, run);
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (watched != query_ || event->type() != QEvent::KeyPress) return QDialog::eventFilter(watched, event);
  const int rows = commands_->rowCount(), row = list_->currentIndex().row();
  const auto go = [&](int to) {
    if (rows > 0) list_->setCurrentIndex(commands_->index(std::clamp(to, 0, rows - 1)));
    return true;
  };
  switch (static_cast<QKeyEvent*>(event)->key()) {
    case Qt::Key_Down:
      return go(row + 1 == rows ? 0 : row + 1);
    case Qt::Key_Up:
      return go(row <= 0 ? rows - 1 : row - 1);
    case Qt::Key_PageDown:
      return go(row + kPaletteRows - 1);
    case Qt::Key_PageUp:
      return go(row - kPaletteRows + 1);
    case Qt::Key_Return:
    case Qt::Key_Enter:
      runCurrent();
      return true;
    default:
      return QDialog::eventFilter(watched, event);
  }
}

}  // namespace moescope
