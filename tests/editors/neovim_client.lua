-- What a test needs inside Neovim: starts the sidecar as a language server and keeps what it says and asks.
-- dofile() returns the table; the user's side (vim.ui.select, vim.ui.open) is answered by the test, never by this file.
local M = {
  asked = {}, -- every dialog so far: { prompt, items, kind }
  open = {}, -- dialogs on the screen now; the test closes them with M.answer
  opened = {}, -- addresses given to vim.ui.open
  messages = {}, -- window/showMessage
  progress = {}, -- values of $/progress in their order, each with its token
  changed = {}, -- sidecar/session/changed
  pending = nil, -- the newest sidecar/pending/changed
  pending_count = 0,
  calls = {}, -- by number: { done, error, result }
  finished = {}, -- sidecar/operation/finished by operation, newest last
}

vim.ui.select = function(items, opts, on_choice)
  local titles = vim.tbl_map(opts.format_item or tostring, items)
  table.insert(M.asked, { prompt = opts.prompt, items = titles, kind = opts.kind })
  table.insert(M.open, { prompt = opts.prompt, titles = titles, items = items, choose = on_choice })
end

vim.ui.open = function(address)
  table.insert(M.opened, address)
  return vim.system({ 'true' }), nil
end

vim.api.nvim_create_autocmd('LspProgress', {
  callback = function(event)
    table.insert(M.progress, vim.tbl_extend('error', { token = event.data.params.token }, event.data.params.value))
  end,
})

-- Close the oldest dialog with the item of this title; nil dismisses it.
function M.answer(title)
  local dialog = table.remove(M.open, 1)
  if title == nil then
    return dialog.choose(nil, nil)
  end
  for index, each in ipairs(dialog.titles) do
    if each == title then
      return dialog.choose(dialog.items[index], index)
    end
  end
  error('no item ' .. title .. ' in ' .. vim.inspect(dialog.titles))
end

local function keep(name)
  return function(_, params)
    table.insert(M[name], params)
  end
end

function M.start(options)
  local show_message = vim.lsp.handlers['window/showMessage']
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.experimental = options.plugin and { sidecar = options.plugin } or nil
  vim.lsp.config('sidecar', {
    cmd = options.cmd,
    filetypes = { 'text' },
    root_dir = options.root,
    capabilities = capabilities,
    init_options = options.init_options,
    handlers = {
      ['window/showMessage'] = function(err, params, context)
        table.insert(M.messages, params.message)
        return show_message(err, params, context)
      end,
      ['sidecar/session/changed'] = keep('changed'),
      ['sidecar/operation/finished'] = keep('finished'),
      ['sidecar/pending/changed'] = function(_, params)
        M.pending, M.pending_count = params.pending, M.pending_count + 1
      end,
    },
  })
  vim.lsp.enable('sidecar')
  vim.cmd.edit(options.file)
  vim.bo.filetype = 'text'
end

function M.client()
  local client = vim.lsp.get_clients({ name = 'sidecar' })[1]
  return client and client.initialized and client or nil
end

local function remember()
  local number = #M.calls + 1
  M.calls[number] = { done = false }
  return number, function(err, result)
    M.calls[number] = { done = true, error = err, result = result }
  end
end

-- Run an operation as an editor without a plugin does.
function M.command(name, params)
  local number, on_reply = remember()
  local arguments = params and { params } or nil
  M.client():exec_cmd({ title = name, command = 'sidecar.' .. name, arguments = arguments }, { bufnr = 0 }, on_reply)
  return number
end

-- Run an operation as a plugin does.
function M.request(name, params)
  local number, on_reply = remember()
  M.client():request('sidecar/' .. name:gsub('%.', '/'), params or vim.empty_dict(), on_reply, 0)
  return number
end

-- The outcome of a call once it is there; of a command that was only begun, what was told later.
function M.outcome(number)
  local call = M.calls[number]
  if not call.done then
    return nil
  end
  if type(call.result) == 'table' and call.result.state == 'started' and call.result.operation then
    for index, told in ipairs(M.finished) do
      if told.operation == call.result.operation then
        table.remove(M.finished, index)
        M.calls[number] = { done = true, error = told.error, result = told.result }
        return M.calls[number]
      end
    end
    return nil
  end
  return call
end

-- The newest result of an operation that is run again and again; the first look has none.
local polled = {}
function M.poll(name)
  local number = polled[name]
  local call = number and M.outcome(number)
  if not number or call then
    polled[name] = M.command(name)
  end
  return call and call.result
end

-- How the turns ended, in words, as the progress of each told it.
function M.endings()
  local turns, endings = {}, {}
  for _, value in ipairs(M.progress) do
    if value.kind == 'begin' and not vim.startswith(value.title, 'sidecar: ') then
      turns[value.token] = true
    elseif value.kind == 'end' and turns[value.token] then
      table.insert(endings, value.message or '')
    end
  end
  return endings
end

-- The text of an answer, put together from the changes alone.
function M.text(turn_id)
  local parts, order = {}, {}
  for _, frame in ipairs(M.changed) do
    for _, change in ipairs(frame.changes) do
      if change.turnId == turn_id and change.kind == 'part_added' and change.part.role == 'agent' then
        parts[change.part.partId] = change.part.text or ''
        table.insert(order, change.part.partId)
      elseif change.turnId == turn_id and change.kind == 'part_text' and parts[change.partId] then
        parts[change.partId] = parts[change.partId] .. change.text
      end
    end
  end
  return table.concat(vim.tbl_map(function(id)
    return parts[id]
  end, order))
end

-- The end of a turn as the changes tell it.
function M.ended(turn_id)
  for _, frame in ipairs(M.changed) do
    for _, change in ipairs(frame.changes) do
      if change.kind == 'turn_ended' and change.turn.turnId == turn_id then
        return change.turn
      end
    end
  end
end

return M
