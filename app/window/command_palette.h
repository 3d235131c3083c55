// Ctrl+K: finds what the window has (actions, panels, metrics, settings, formats, experts, layers, findings, lessons,
// pages of the manual, files) by parts of words of its name or by another word for it (assets/palette/synonyms.txt),
// and the pages of the manual that have what is typed.
#pragma once

#include <QAbstractListModel>
#include <QDialog>
#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <functional>
#include <optional>
#include <vector>

#include "app/help/manual.h"

namespace moescope {

struct PaletteCommand {
  QString title;  // "Start a preset: nano"
  QString group;  // "Run", "Lesson", "Metric", "Setting": shown at the right; the search matches it
  QString keys;   // "Ctrl+O"; empty: none
  std::function<void()> run;
  QString also;  // other names, which the search matches: "router.bias_update_rate", "stop | stop training"
  // If set, this is no command: it returns the commands for what is typed, such as those of an expert by its number.
  std::function<std::vector<PaletteCommand>(const QString& typed)> typed_commands = {};
};

class CommandList : public QAbstractListModel {
  Q_OBJECT

 public:
  enum Roles { kGroup = Qt::UserRole, kKeys, kMatched, kAlso, kEffect };
  explicit CommandList(std::vector<PaletteCommand> commands, QObject* parent);
  // Lists the best match first; without a match, that of similar words, or the commands with some of the words. An
  // empty query lists all commands in their order.
  void setQuery(const QString& query);
  bool hasMatch() const { return has_match_; }
  const PaletteCommand& at(int row) const { return commands_[shown_[row].command]; }
  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;

 private:
  struct Shown {
    std::size_t command;
    int score;
    std::vector<int> matched;
    int synonym = -1;  // its place among the synonyms; -1: found by what was typed
  };
  std::optional<Shown> found(std::size_t command, const QString& query) const;
  void list(QString typed);
  std::optional<Shown> bestOf(std::size_t command, const QString& typed, const Synonyms& synonyms) const;
  int priority(const Shown& shown, const QString& typed, const Synonyms& synonyms) const;
  void listByParts(const QString& typed);
  QString wordsSpelledLike(const QString& typed) const;

  std::vector<PaletteCommand> commands_;
  std::size_t known_;  // number of commands; those behind them are for what is typed
  std::vector<Shown> shown_;
  bool has_match_ = true, asks_meaning_ = false;
};

class CommandPalette : public QDialog {
  Q_OBJECT

 public:
  CommandPalette(std::vector<PaletteCommand> commands, QWidget* window);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  void search(const QString& text);
  void runCurrent();
  QLineEdit* query_;
  QLabel* nothing_found_;
  QListView* list_;
  CommandList* commands_;
};

}  // namespace moescope
