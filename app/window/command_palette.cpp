#include "app/window/command_palette.h"

#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTextLayout>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kPaletteWidth = 680, kPaletteRows = 14, kKindColumn = 96;
constexpr int kFirstOfWord = 12, kInARow = 14, kMatch = 2, kEntryGap = -1;

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
                      index.data(CommandList::kGroup).toString());
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
    QTextLayout layout(title, font);
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

}  // namespace

std::optional<int> fuzzyScore(const QString& query, const QString& text, std::vector<int>* matched) {
  int score = 0, at = 0, last = -2;
  for (const QChar character : query) {
    if (character.isSpace()) continue;
    // Prefers a letter that begins a later word, or continues a run, to an earlier letter in the middle of a word.
    int found = -1;
    for (int i = at; i < text.size(); ++i) {
      if (text[i].toLower() != character.toLower()) continue;
      const bool begins = i == 0 || !text[i - 1].isLetterOrNumber();
      if (found < 0) found = i;
      if (i == last + 1 || begins) {
        found = i;
        break;
      }
    }
    if (found < 0) return std::nullopt;
    const bool begins = found == 0 || !text[found - 1].isLetterOrNumber();
    score += kMatch + (begins ? kFirstOfWord : 0) + (found == last + 1 ? kInARow : 0);
    if (last >= 0 && found != last + 1) score += kEntryGap;
    if (matched) matched->push_back(found);
    last = found;
    at = found + 1;
  }
  return score * 8 - static_cast<int>(text.size()) / 4;
}

CommandList::CommandList(std::vector<PaletteCommand> commands, QObject* parent)
    : QAbstractListModel(parent), commands_(std::move(commands)) {
  setQuery({});
}

void CommandList::setQuery(const QString& query) {
  beginResetModel();
  shown_.clear();
  for (std::size_t i = 0; i < commands_.size(); ++i) {
    Shown shown{i, 0, {}};
    auto score = fuzzyScore(query, commands_[i].title, &shown.matched);
    if (!score) {
      shown.matched.clear();
      score = fuzzyScore(query, commands_[i].group + ' ' + commands_[i].title + ' ' + commands_[i].also);
      if (score) *score -= 40;
    }
    if (!score) continue;
    shown.score = *score;
    shown_.push_back(std::move(shown));
  }
  if (!query.trimmed().isEmpty()) std::ranges::stable_sort(shown_, std::greater{}, &Shown::score);
  endResetModel();
}

int CommandList::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(shown_.size());
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
  query_->setPlaceholderText("Find an action, panel, metric, setting, lesson or file");
  query_->setAccessibleName("Command");
  query_->setClearButtonEnabled(true);
  commands_ = new CommandList(std::move(commands), this);
  list_ = new QListView;
  list_->setModel(commands_);
  list_->setItemDelegate(new CommandDelegate(list_));
  list_->setUniformItemSizes(true);
  list_->setFocusPolicy(Qt::NoFocus);
  list_->setAccessibleName("Commands");
  list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 8, 8, 8);
  nothing_found_ = new QLabel("No action, panel, metric, setting, lesson or file matches");
  nothing_found_->setMargin(kSpace8);
  column->addWidget(query_);
  column->addWidget(nothing_found_);
  column->addWidget(list_, 1);
  query_->installEventFilter(this);
  connect(query_, &QLineEdit::textChanged, this, &CommandPalette::search);
  connect(list_, &QListView::clicked, this, &CommandPalette::runCurrent);
  search({});
  const int width = std::min(withType(kPaletteWidth, fontMetrics()), window->width() - 2 * kSpace24);
  resize(width, kPaletteRows * list_->sizeHintForRow(0) + query_->sizeHint().height() + 34);
  move(window->mapToGlobal(QPoint((window->width() - width) / 2, 60)));
  query_->setFocus();
}

void CommandPalette::search(const QString& text) {
  commands_->setQuery(text);
  nothing_found_->setVisible(commands_->rowCount() == 0);
  list_->setCurrentIndex(commands_->index(0));
  list_->scrollToTop();
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
      return go(row == 0 ? rows - 1 : row - 1);
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
