import { MemoryProvider } from "memlane/react";
import { useState, type FormEvent, type ReactElement } from "react";

import { RUNTIME_URL, WS_URL, headersOf } from "./bff.ts";
import { Workbench } from "./Workbench.tsx";
import { useUser } from "./user.ts";

/** The page: who is shown, and a store of that user's own. */
export function App(): ReactElement {
  const { user, recent, switchTo } = useUser();
  return (
    // Another user is another store: nobody's list is shown to somebody else for a moment.
    <MemoryProvider key={user} runtimeUrl={RUNTIME_URL} wsUrl={WS_URL} headers={headersOf(user)}>
      <Workbench user={user} userSwitch={<UserSwitch user={user} recent={recent} onSwitch={switchTo} />} />
    </MemoryProvider>
  );
}

interface UserSwitchProps {
  readonly user: string;
  readonly recent: readonly string[];
  readonly onSwitch: (user: string) => void;
}

function UserSwitch({ user, recent, onSwitch }: UserSwitchProps): ReactElement {
  const [draft, setDraft] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const next = draft.trim();
    if (next !== "") onSwitch(next);
    setDraft("");
  };
  return (
    <form className="user-switch" onSubmit={submit}>
      <label htmlFor="user">
        User <strong>{user}</strong>
      </label>
      <a
        href={location.search}
        target="_blank"
        rel="noreferrer"
        title="The same user in another window: it stays equal"
      >
        Second window
      </a>
      <input
        id="user"
        list="recent-users"
        value={draft}
        maxLength={256}
        placeholder="switch to…"
        autoComplete="off"
        onChange={(event) => setDraft(event.target.value)}
      />
      <datalist id="recent-users">
        {recent.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <button type="submit" disabled={draft.trim() === ""}>
        Switch
      </button>
    </form>
  );
}
