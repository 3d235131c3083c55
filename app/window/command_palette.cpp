#include "app/window/command_palette.h"

#include <QHash>
#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTextLayout>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <span>

#include "app/help/manual.h"
#include "core/files/text/words.h"
#include "core/numerics/index.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kPaletteWidth = 680, kPaletteRows = 14, kKindColumn = 128;
constexpr int kInTitle = 200;       // what a word in the title counts; at the beginning of a word twice as much
constexpr int kAsTyped = 10000;     // a title with what is typed counts more than a synonym of its beginning,
constexpr int kAsSynonym = 200000;  // but less than a synonym of the whole word,
constexpr int kPerSynonym = 20000;  // the first one most,
constexpr int kAsFinding = 400000;  // and a finding about the open runs most
constexpr int kShortestWord = 3;    // letters of a typed word by which names are similar

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
    painter->setFont(item_option.font);
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
  if (command.title.startsWith("Panel: ")) return "show, " + command.group;
  return kEffects.value(command.group, command.group);
}

// Returns the place of `part` in `text`, preferably at the beginning of a word; -1: `text` does not contain it.
int placeOfPart(const QString& part, const QString& text) {
  int place = -1, at = -1;
  while ((at = to_int(text.indexOf(part, at + 1, Qt::CaseInsensitive))) >= 0) {
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
std::optional<CommandList::Shown> CommandList::found(std::size_t command, const QString& query) const {
  const PaletteCommand& candidate = commands_[command];
  Shown shown{command, -to_int(candidate.title.size()), {}};
  const QString other_names = candidate.group + ' ' + candidate.also + ' ' + QString(candidate.title).remove('-');
  for (const QString& word : query.split(' ', Qt::SkipEmptyParts)) {
    const int at = placeOfPart(word, candidate.title);
    if (at < 0 && !other_names.contains(word, Qt::CaseInsensitive)) return std::nullopt;
    const bool begins = at == 0 || (at > 0 && !candidate.title[at - 1].isLetterOrNumber());
    if (at >= 0) shown.score += begins ? 2 * kInTitle : kInTitle;
    for (int i = 0; at >= 0 && i < word.size(); ++i) shown.matched.push_back(at + i);
  }
  return shown;
}

void CommandList::setQuery(const QString& query) {
  beginResetModel();
  shown_.clear();
  QString typed = query.simplified();
  const auto is_named = [&](const PaletteCommand& command) {
    return command.title.contains(typed, Qt::CaseInsensitive) || command.also.contains(typed, Qt::CaseInsensitive);
  };
  const bool names_none = std::ranges::none_of(std::span(commands_).first(known_), is_named);
  if (names_none) typed = withoutFillers(typed);
  commands_.erase(commands_.begin() + known_, commands_.end());
  for (std::size_t i = 0; i < known_; ++i)
    for (const PaletteCommand& command :
         commands_[i].of_typed ? commands_[i].of_typed(typed) : std::vector<PaletteCommand>())
      commands_.push_back(command);
  Synonyms synonyms = synonymsOf(typed);
  if (names_none && synonyms.words.isEmpty()) synonyms.words = synonymsOfWords(typed);
  const QStringList queries = QStringList(typed) + synonyms.words;
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i].of_typed) continue;
    std::optional<Shown> best;
    for (int q = 0; q < queries.size(); ++q) {
      if (q > 0 && !commands_[i].title.contains(queries[q], Qt::CaseInsensitive)) continue;
      auto shown = found(i, queries[q]);
      if (shown && q > 0) shown->matched.clear();  // it is not what was typed
      if (shown && q > 0 && synonyms.is_whole_word) shown->score += kAsSynonym - q * kPerSynonym;
      if (shown && (!best || shown->score > best->score)) best = std::move(shown);
    }
    if (!best) continue;
    const bool is_term = commands_[i].group == QLatin1String("Term");  // what the window has comes first
    const bool is_of_manual =
        commands_[i].group == QLatin1String("Manual") || commands_[i].title.startsWith("Manual: ");
    if (commands_[i].group == QLatin1String("Finding") && commands_[i].title.contains(typed, Qt::CaseInsensitive))
      best->score += kAsFinding;
    if (is_of_manual || (!is_term && commands_[i].title.contains(typed, Qt::CaseInsensitive)))
      best->score += is_of_manual ? -kAsFinding : kAsTyped;
    shown_.push_back(std::move(*best));
  }
  has_match_ = !shown_.empty();
  if (!has_match_) listSimilar(typed.toLower());
  if (!typed.isEmpty()) std::ranges::stable_sort(shown_, std::greater{}, &Shown::score);
  endResetModel();
}

// Lists the commands of which a word differs from `query` by few letters, then those with one of its words.
void CommandList::listSimilar(const QString& query) {
  const std::string typed = query.toStdString();
  const std::size_t max_distance = std::max<std::size_t>(2, typed.size() / 3);
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i].of_typed || i >= known_) continue;
    std::size_t distance = max_distance + 1;
    bool has_word = false;
    for (const QString& word : (commands_[i].title + ' ' + commands_[i].also).toLower().split(' ')) {
      distance = std::min(distance, edit_distance(typed, word.toStdString()));
      has_word |= std::ranges::any_of(
          query.split(' '), [&](const QString& part) { return part.size() >= kShortestWord && word.startsWith(part); });
    }
    const bool is_similar = distance <= max_distance && distance < typed.size();
    if (is_similar || has_word) shown_.push_back({i, -to_int(distance), {}});
  }
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
  setWindowTitle("Command palette");
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
