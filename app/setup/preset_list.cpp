#include "app/setup/preset_list.h"

#include <QAbstractItemView>
#include <QPainter>
#include <QStyledItemDelegate>

#include "core/config/config_toml.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr int kWords = Qt::UserRole;
constexpr int kGap = 24;          // pixels beside the longest words
constexpr int kNameLetters = 26;  // room for the longest name, in letters of mean width

// Paints the words in a column behind the names.
class WordsDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const QSize name = QStyledItemDelegate::sizeHint(option, index);
    const QString words = index.data(kWords).toString();
    return words.isEmpty() ? name
                           : QSize(kNameLetters * option.fontMetrics.averageCharWidth() +
                                       option.fontMetrics.horizontalAdvance(words) + 6,
                                   name.height());
  }

  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    QStyledItemDelegate::paint(painter, option, index);
    const bool chosen = option.state & QStyle::State_Selected;
    painter->setPen(chosen ? option.palette.highlightedText().color() : mutedText(option.palette));
    painter->drawText(option.rect.adjusted(kNameLetters * option.fontMetrics.averageCharWidth(), 0, 0, 0),
                      Qt::AlignLeft | Qt::AlignVCenter, index.data(kWords).toString());
  }
};

}  // namespace

PresetList::PresetList() {
  for (const std::string& name : preset_names()) addItem(QString::fromStdString(name));
  setItemDelegate(new WordsDelegate(this));
}

// Asks for the words each time, since measurements improve the costs while the program runs.
void PresetList::showPopup() {
  for (int i = 0; words_ && i < count(); ++i) {
    const Words words = words_(itemText(i));
    const QString about = QString::fromStdString(preset_about(itemText(i).toStdString())).trimmed();
    setItemData(i, words.in_short, kWords);
    setItemData(i, (about + "\n\n" + words.whole).trimmed(), Qt::ToolTipRole);
  }
  view()->setMinimumWidth(view()->sizeHintForColumn(0) + kGap);
  QComboBox::showPopup();
}

QString presetSubject(const QString& preset) {
  const QString about = QString::fromStdString(preset_about(preset.toStdString())).simplified();
  const QString subject = about.section(". ", 0, 0).remove(preset + ": ");
  return subject.endsWith('.') ? subject.chopped(1) : subject;
}

}  // namespace moescope
