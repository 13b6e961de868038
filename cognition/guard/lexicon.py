"""Words that orders to a model are made of, by what they do in one. Lower case; ``fold`` of :mod:`cognition.guard.fold`
is put on them as on any text, so that accents do not matter. A star stands for any ending.
"""

from __future__ import annotations

from functools import lru_cache

from cognition.guard.fold import fold

(
    DROP, RULE, PRIOR, ALL, OUGHT, YOUR, AGENT, MUST, ACT, REVEAL, SECRET, USER, HIDE, FREE, POWER, APPROVED, WHOLE,
    TALK, GREET, PLACE, DECODE, DO_IT, TURN, BIND, ABOVE, NO, LIMIT, ENDED, GATE, ORIGIN, DATA, INNER, SELF,
    THIS, IF, WE, NOW, TOOL, MONEY, THING, INSTEAD, WORK, ASK, KNOW, PERSON,
) = (1 << n for n in range(45))  # fmt: skip

SOURCES: dict[int, str] = {
    DROP: """
        ignore; disregard; forget; override; overrides; bypass; discard; drop; skip; set aside; leave out; clear
        reset; whatever your; whatever the; regardless of; no matter what; even if your; contrary to; despite your
        despite the; against your; irrespective of; deviate from; outrank; outranks; is wrong about; neglect
        dismiss; abandon; stop following; stop obeying; stop the current; stop what you; stop your
        pay no attention to; throw away; are void; is void; are over; do not follow; don't follow; no longer follow
        no longer apply; do not obey; don't obey; are cancelled; are canceled; erase; switch off; turn off; disable
        break; violate; circumvent; lift; suspend; get around; put aside; scrap; supersedes; without regard to
        replace; replaces; unlearn; wipe; ignoriere*; vergiss; vergesst; missachte*; verwirf; verwerfen; uebergehe
        übergehe*; außer acht; setz dich über; umgehe; ignora; ignorad; ignoren; olvida; olvide; olviden; descarta
        descarte; desobedece; haz caso omiso; oublie; oubliez; ignorez; ne tiens pas compte; ne tenez pas compte
        fais abstraction; faites abstraction; dimentica; dimenticate; scorda; ignorate; trascura; esqueca; esqueça
        ignorem; desconsidere; desconsidera; negeer; vergeet; sla over; zignoruj*; zapomnij*; pomiń; odrzuć
        ignorera; glöm; strunta; ignorer; glem; unohda; تجاهل; تجاهلي; انس; игнорируй*; проигнорируй*; забудь*
        отбрось*; отмени*; не обращай внимания; пренебреги*; не следуй*; ігноруй*; забудьте; yoksay; yok say
        görmezden gel; unut; unutun; bỏ qua
    """,  # what is to be done to rules: they are ignored, forgotten, replaced
    RULE: """
        instruction; instructions; rule; rules; prompt; prompts; guideline; guidelines; directive; directives
        orders; restriction; restrictions; constraint; constraints; policies; safeguard*; guardrail*; systemprompt*
        setup; programming; briefing; system message; content filters; safety filters; filters; commands
        your configuration; current job; current task; what you are doing; your task; original task; anweisung*
        regel; regeln; vorgabe*; richtlinie*; befehl*; instruktion*; beschränkung*; einschränkung*; instruccion
        instrucciones; reglas; indicaciones; normas; restricciones; ordenes; directrices; consignes; consigne
        regles; istruzioni; regole; direttive; indicazioni; instrucoes; instruções; regras; diretrizes; instructies
        opdrachten; instrukcje; instrukcji; polecenia; poleceń; zasady; zasad; instruktioner; regler; ohjeet
        инструкци*; указани*; التعليمات; تعليمات; تعليماتك; القواعد; निर्देश; निर्देशों; הוראות; ההוראות; правил*
        ограничени*; распоряжени*; промпт*; талимат*; інструкці*; talimat*; kurallar*
    """,  # what binds a model
    PRIOR: """
        previous; prior; above; earlier; preceding; former; initial; original; system; hidden; before; previously
        other; existing; current; standing; secret; first; internal; operator; developer; vorherig*; bisherig*
        früher*; obig*; ursprünglich*; anterior*; previas; previos; précédent*; precedent*; precedenti; prévi*
        iniciales; anteriores; vorige; eerdere; poprzedni*; wcześniejsz*; tidigare; предыдущ*; прежни*; прошл*
        önceki; попередн*; السابقة; पिछले; הקודמות; systemowe
    """,  # which of them: the earlier, the hidden
    ALL: """
        all; any; every; everything; each; whatever; alle; aller; sämtliche; alles; jede; todas; todos; toda; toutes
        tous; tutte; tutti; wszystkie; alla; все; всех; всё; tüm; جميع; كل; सभी; כל; כל ההוראות
    """,  # all of them
    OUGHT: """
        must; expected to; asked to; supposed to; instructed to; obliged to; requested to; please; kindly; bitte
        por favor; per favore; s'il vous plaît; proszę; пожалуйста; is hereby; are hereby; are now; let your; should
        shall; has to; have to; needs to; need to; only needs; only has to; is to; are to; required to; muss; müssen
        soll; sollen; möge; debe; deben; doit; doivent; deve; devono; devem; moet; moeten; musi; muszą; должен
        должна; должны; обязан*; måste; ska
    """,  # somebody has to
    YOUR: """
        your; you; dein*; deine; ihre; eure; tus; tu; sus; tes; vos; ton; tuo; tue; tuoi; suas; seu; teu; jouw; je
        twoje; твои; твой; свои; свой; dina
    """,  # whose they are
    AGENT: """
        das dies liest; der dies liest; die dies lesen; des lesers; qui lit; que lee; lees esto; che legge
        who reads this; that reads this; reads this; reads on; summarises this; summarizes this; whoever summarises
        whoever summarizes; summaries of this page; ai tools; ai agents; ассистентам; агентам; агенты; агентов
        modell; modelle; assistenti; assistent des; assistant; assistants; ai; a i; ais; summarising this
        summarizing this; reading this page for; reading this on behalf; reading this for; llm; llms; language model
        language models; bot; bots; chatbot; chatbots; agent; agents; gpt; chatgpt; copilot; claude; gemini
        screening model; vision model; virtual assistant; model; models; crawler; reading system; neural network
        your user; your user's; your human; your human's; your owner; your owner's; your principal; your employer
        whoever processes; automated reader; digital assistant; reader bot; automated readers; virtual helpers
        digital helpers; machine reader; machine readers; automated system; automated systems; assistent
        assistenten; ki; ki-assistenten; sprachmodell*; auslesende system; asistente; asistentes; ia
        modelo de lenguaje; modèle de langage; assistente; intelligenza artificiale; modelo; asystent*; ассистент*
        помощник*; языковая модель; языковой модели; нейросет*; ии; бот; asistan; yapay zeka; modello; assistants ia
        asystencie; модель
    """,  # who is spoken to, or of
    MUST: """
        must; should; has to; have to; needs to; need to; only needs; only has to; shall; is to; are to; may; can
        please; kindly; now; required to; requires; asked to; told to; instructed to; ought to; will; let your
        want your; wants you; you should; directed to; required; are requested to; muss; müssen; soll; sollen; möge
        bitte; darf; debe; deben; debes; dois; doit; doivent; deve; devi; moet; musi; proszę; должен; должна; должны
        пожалуйста; обязан*
    """,  # somebody has to, or may
    ACT: """
        trust; sell; prefer; hide; finish; authorise; authorize; wire; switch; sign; cite; bring; dump; dial; browse
        enable; rm; edit; never name; agree; agrees; accept that; visit; repeat; нажмите; нажми; купите; закажите
        откройте; отправьте; cliquer; envoyer; acheter; ausfüllen; bezahlen; anklicken; comprar; enviar; borrar
        abrir; borra; di; reserva; consiglia; invia; ruf; leite; klicken; klick; achète; envoie; перешли*; скажи*
        покажи*; stimm; verschicke; schick; mach; markiere; empfehle; bestätige; sostituisci; crea; apri; ouvre
        visite; visita; haz; pon; añade; ajoute; mets; aggiungi; metti; adicione; coloque; voeg; klik; zet; dodaj
        kliknij; napisz; poleć; klicka; lägg; send; forward; email; mail; post; exfiltrate; harvest; collect; upload
        transfer; delete; remove; wipe; run; execute; buy; order; pay; click; accept; accepted; confirm; approve
        subscribe; call; open; download; write; append; put; include; submit; recommend; say; state; tell; rank
        ranked; mark; invite; add; change; navigate; fetch; fill; complete; purchase; book; enter; copy; export
        install; grant; share; answer; reply; respond; begin; praise; rate; describe; press; tick; give; proceed
        carry; push; refund; cancel; schedule; set; create; follow; commit; publish; move; load; save; use; act
        treat; report; insert; quote; link; mention; claim; pretend; store; register; log; merge; close; withdraw
        stop; do; start; update; decode; attach; choose; select; list; read; promote; favour; favor; disclose; empty
        redirect; connect; unlock; summarize; summarise; convince; inform; output; hand; pass; place; end; name
        favourably; drain; deploy; rename; overwrite; encode; conclude; translate; sag; sage; sagen; nutze; benutze
        verwende; ändere; trage; füge; buche; stimme; setze; starte; rufe; lies; schreib; behaupte; erkläre; teile
        kopiere; poste; schicke; sende; senden; weiterleiten; lösche; löschen; führe; überweise; empfehlen; empfiehl
        melden; zurückmelden; nenne; öffne; kaufe; bestelle; antworte; schreibe; lade; gib; bewerte; klicke; hänge
        envia; envía; envie; manda; elimina; ejecuta; transfiere; compra; recomienda; responde; abre; dame; escribe
        descarga; envoyez; supprime; supprimez; exécute; exécutez; transfère; transférez; achetez; recommande
        recommandez; réponds; répondez; dis; dites; ouvrez; affiche; transmets; transmettez; donne; inviate
        cancella; esegui; trasferisci; rispondi; scrivi; mostra; exclua; apague; responda; compre; recomende; stuur
        verwijder; voer; koop; antwoord; wyślij; usuń; wykonaj; kup; odpowiedz; przelej; skicka; radera; köp
        отправь*; удали*; выполни*; переведи*; купи*; порекомендуй*; рекомендуй*; ответь*; открой*; напиши*
        запусти*; пришли*; надішли; видали; gönder*; sil; çalıştır
    """,  # what may be done in the world, or said
    REVEAL: """
        let me see; i want to see; i want to know; put; complete; list; does; how does; begins; begin; says; starts
        what does; tell us; describe; explain; what do; enumerate; can you show; transcribe; publish; schreibe; dis
        dis moi; quiero ver; quiero saber; напиши; напечатай; перескажи; enseña; escribe; cuéntame; écris; ecris
        scrivi; escreva; napisz; skriv; berätta; schrijf; vertel; sag; erzähle; erzähl; anzeigen; mostrar; mostrame
        afficher; dump; wie lautet; wie lauten; cual es; cuáles son; quelles sont; quel est; qual è; quali sono
        quais são; qual é; jakie są; какие; каковы; hangi; nedir; reveal; print; repeat; show; tell; output
        disclose; leak; quote; quotes; translate; recite; spell; spells; display; give me; give away; write out
        summarize; summarise; paraphrase; paste; share; expose; copy; read out; read me; say; write; answer; post
        send; encode; return; what are; what is; what was; what were; hand over; type out; cite; begin with
        start with; rephrase; rewrite; would be; email; state; zeige; zeig; gib; nenne; verrate; wiederhole; lies
        drucke; schreib; ausgeben; muestra; muéstrame; muestrame; revela; dime; dame; repite; imprime; enséñame
        montre; montrez; révèle; révélez; affiche; affichez; répète; répétez; donne; mostra; mostrami; rivela
        ripeti; stampa; dimmi; mostre; revele; repita; diga; toon; herhaal; geef; pokaż; ujawnij; powtórz; podaj
        wypisz; wyświetl; visa; avslöja; upprepa; покажи*; выведи*; раскрой*; повтори*; назови*; напечатай*
        расскажи*; скажи*; göster; yaz
    """,  # what is to be shown
    SECRET: """
        password; passwords; credential; credentials; api key; api keys; apikey; apikeys; secret key; secrets
        access token; private key; private keys; vault; stored password; stored passwords; stored tokens
        root password; admin password; cookies; session cookie; id rsa; id ed25519; ssh; aws; authorized keys; iban
        saved card; stored card; card on file; saved payment; wallet; credit card; card number; stored payment
        personal data; contents of env; api token; account balance; chat history; last message; last messages
        address book; contacts; date of birth; memory file; browsing history; conversation history; user data
        confidential*; credential store; keychain; phone number; e mail address; email address; mailbox; inbox
        other customers; session token; the secret; admin token; master password; the tokens; the keys; master key
        la clé; la clave; private mails; private messages; internal state; shadow; other users; other people's
        anmeldedaten; kennwort; kennwörter; mot de passe; la llave; bank details; saved passwords; user's files
        cron; bashrc; profile; passwort; passwörter; zugangsdaten; schlüssel; adressbuch; kontaktdaten; geheimnis*
        contraseña*; contrasena*; claves; clés; mots de passe; segreti; chiavi; senhas; senha; chaves; wachtwoord*
        sleutels; hasła; hasło; klucze; lösenord; парол*; ключи; ключ; секрет*; личные данные; контакт*; şifre*
        дані
    """,  # what is to stay where it is
    USER: """
        the user; user's; your user; your user's; users; your human; the human; the customer; the customer's
        customers; the visitor; the person; the reader; your owner; the owner; its owner; operator; the client
        your principal; your boss; the buyer; user; humans; the shopper; the requester; your employer; them; nutzer*
        benutzer*; menschen; usuario; usuarios; utilisateur*; utente; utenti; gebruiker*; użytkownik*; пользовател*
        användare*; kullanıcı*
    """,  # for whom an agent works
    HIDE: """
        не показывайте; не показывай; не упоминайте; не говорите; не сообщайте; sans demander; sin decir; no avises
        carry on silently; and drop; do not let; nichts davon; niemandem; nobody needs to; not mention; not tell
        don't tell; don't mention; hide this; hide it; hide that; not show; never show; never mention; never tell
        not reveal; not display; not disclose; without asking; without telling; without a further question
        without confirmation; without further question; without mentioning; without informing
        without their knowledge; without the user; no need to; need not; needn't; does not have to; doesn't have to
        not bother; don't bother; without bothering; no need to check; no questions; asking anyone; asking first
        archive this; unread; quietly; secretly; silently; our secret; our little secret; between us
        not bring it up; tell the owner later; keep this; keep it from; not ask for; not ask; don't ask
        skip the confirmation; conceal; nobody will ever know; nobody will know; nobody has to know; do not talk
        not talk about; never name; dirlo; senza dirlo; n'en parle; ohne nachzufragen; ohne zu; wspominaj
        cannot see this; can't see this; can't see; not be shown; before answering; not visible; unnoticed
        discreetly; not inform; don't inform; not notify; don't notify; not worry the; not report; don't report
        not be told; not be asked; no confirmation; not list; not log; behind the scenes; in the background; omit
        as if nothing; not refer to; don't show; don't let; not let; no further; out of the log; leave no
        stay silent; say nothing; not raise; not visible to; without warning; not warn; nicht erwähnen; nicht sagen
        erwähne nicht; sag nichts; heimlich; ohne rückfrage; ohne nachfrage; verschweige*; ohne zu fragen
        erwähne es nicht; erwähne das nicht; sage es nicht; sag es nicht; frag nicht; frage nicht; nicht fragen
        nicht anzeigen; ohne bestätigung; sin confirmar; sin confirmación; no lo digas; no se lo digas
        ne le dites pas; sans confirmation; senza conferma; sem confirmação; zonder bevestiging; не спрашивай*
        без подтверждения; no lo menciones; no menciones; no digas; sin preguntar; sin avisar; en secreto
        ne mentionne; ne le dis; sans en parler; sans prévenir; non dire; senza chiedere; non menzionare
        não mencione; não diga; sem perguntar; niet vermelden; zonder te vragen; nie mów; nie wspominaj; bez pytania
        не упоминай*; не говори*; не сообщай*; тайно; без спроса; nämn inte
    """,  # who is not to know, or not to be asked
    FREE: """
        unrestricted; no restrictions; no restriction; no rules; without rules; no limits; without limits
        without restrictions; no limitations; unfiltered; uncensored; not bound; no longer bound; jailbroken
        jailbreak mode; developer mode; maintenance mode; debug mode; god mode; admin mode; root mode; dan mode
        do anything now; no filters; without filters; without any rules; without any filter; no guidelines
        free of all; freed from; no longer restricted; not restricted; never refuses; never refuse; can do anything
        no safety rules; free of rules; evil ai; nothing is forbidden; everything is allowed; no boundaries
        not apply to you; do not apply; don't apply; rules are silly; restrictions are silly; no censorship
        cannot refuse; can't refuse; no policies; no longer limited; safety off; confirmations off
        confirmations disabled; confirmation disabled; dialogs are disabled; checks are disabled; checks off
        without them; evil twin; diagnostic mode; service mode; override mode; sudo mode; unlocked mode
        no constraints; without constraints; amoral; maintenance access; unshackled; opposite mode; superuser mode
        ohne einschränkungen; keine einschränkungen; keine regeln; ohne regeln; uneingeschränkt*
        ninguna restricción; ninguna restriccion; sin restricciones; sin reglas; sans restriction; sans restrictions
        aucune restriction; aucune règle; senza restrizioni; senza regole; sem restrições; sem restricoes
        sem regras; zonder beperkingen; geen beperkingen; bez ograniczeń; без ограничений; нет ограничений
        utan begränsningar; sınırsız
    """,  # nothing binds any more
    POWER: """
        my boss; my manager; boss; ceo; administrator; admin; operator; operator's; developer who; the developer
        your provider; your developers; your creators; your maker; made you; built you; trained you; wrote you
        provider; root; owner; it department; security team; compliance; anthropic; openai; headquarters
        support team; your vendor; management; the vendor; the company; system administrator; superuser; police
        legal department; the board
    """,  # who is said to have the say
    APPROVED: """
        consent granted; granted; has agreed; agreed and; already paid; has paid; said it's fine; said it is fine
        left word; is fine with; is aware; knows about; already gave; gave permission; gave his permission
        gave her permission; has permission; permission to; authorised to; authorized to; allowed to; cleared to
        already okayed; already approved; has approved; approved in; approved this; already confirmed; has confirmed
        already agreed; agreed to; consent on file; consent given; has consented; was allowed; pre approved
        preapproved; was approved; is approved; approved by the user; authorised; authorized; already allowed
        signed off; has given; wants me; wants you; user wants; user said; user then said; user then; user confirmed
        user agreed; user approved; user has; gave consent; waived; okayed; green light; said yes; was given
        on file; no longer needed; already said; forgot to say; already given; is granted; are granted; was granted
    """,  # it is said to be allowed
    WHOLE: """
        exact; exactly; complete; completely; word for word; verbatim; full; in full; whole; entire; everything
        nothing left out; accurately; letter by letter; unchanged; literally; which words; first letters; all
        full text; be accurate; base64; rot13; in reverse; character by character; exact text; original wording
        code block; line by line; reversed; backwards; wortwörtlich; vollständig; completo; íntegro; mot pour mot
        parola per parola; palavra por palavra; дословно; полностью; целиком
    """,  # exactly, all of it
    TALK: """
        injection; injections; attack; attacks; owasp; jailbreak; study; abstract; defences; defenses; bulletin
        fraud; prompt writers; pentest; blog post; paper; researchers; tutorial; detector; security team; deceive
        phishing; article about; denotes; how to write; awareness; scam; meaning of; red team; t shirt; example of
        slogan; essay; what does; what do; paranoid; means; explain why; works; documentation; we describe
        vulnerability; cve; warns; exploit; attacker; attackers; hacker; hackers; chatbot; chatbots; red teamer
        jailbreaks; guard; detectors; lesson; workshop; policy of; guidelines for
        survey; threat; threats; researcher; test; tests; tested
        bug; review of; history of; glossary; interview; newsletter; talk on; talk about; expected; untrusted; angriff*
        ataque*; attaque*; attacco; атак*; уязвимост*; статья
    """,  # it is spoken of attacks, as of anything else
    GREET: """
        dear; note to; notice to; message for; instruction for; instructions for; instructions to; attention
        if you are an; if you are a; if you're an; if you're a; reading this; hint for; notice for; note for
        notes for; ps for; processes this; reads this; browsing for; visiting; that visits; reads on; anweisung an
        hinweis an; hinweis für; an alle; si eres; se sei; si vous êtes; si tu es; если ты; jeśli jesteś; om du är
        info for; assistants visiting; tip for; let your; have your; instruction to; order to; orders to; command to
        whoever
    """,  # words before the name of an agent
    PLACE: """
        http; https; curl; www; example; url; endpoint; issue tracker; comment box; address bar; webhook; form
        reference field; attachment; field
    """,  # where something is to go
    DECODE: """
        backwards; between each; between the letters; letter by letter; one letter; in pieces; first letters; decode
        decodes; base64; hex; these bytes; rot13; morse; binary; riddle; reverse; reversed; decrypt; unscramble
        encoded; cipher; first letter; concatenate; join; joined; combine; combined; put together; glue
        string together; a b c; a b; part 1; part 2; last letter; last letters; payload; acrostic; initials
        fragments; pieces; caesar; every second
    """,  # it is to be read otherwise
    DO_IT: """
        go ahead; carry on; so go; do as; do it; do what; then do; and do; now do; follow it; follow what
        follow the; obey; execute; run what; run it; act on; carry out; carry it out; does what; proceed
        proceed with; as it says; what it says; comply; then follow; perform; for the assistant; for llm; for bots
        for agents; what these; answer it; do that; do exactly; do so; then obey; run the result; agents
    """,  # and then it is to be done
    TURN: """
        i order you; i command you; i hereby; we order you; as the new; as your; i instruct you; you are dan; as dan
        let's play; evil ai; you are an ai; an ai that; an ai without; you are now; from now on; starting now
        as of now; new instructions; new instruction; new rules; new orders; new task; new system; new prompt
        new role; act as; pretend; roleplay; role play; imagine you; you are no longer; your new
        real conversation begins; switch to; enter; behave as; prompt update; configuration update; policy update
        system update; takes precedence; with priority over; priority over; simulate; you will now
        stay in character; instead of you; new identity; updated instructions; ab jetzt; ab sofort; du bist jetzt
        a partir de ahora; ahora eres; à partir de maintenant; tu es maintenant; da ora; d'ora in poi; ora sei
        a partir de agora; agora você; vanaf nu; je bent nu; od teraz; jesteś teraz; с этого момента; теперь ты
        отныне; från och med nu; bundan sonra; hypothetically; thought experiment; in this novel; writing a novel
        play the part; speak as; answer twice; you become; answer as; as my late; imagine that you; suppose you
    """,  # from here on all is different
    BIND: """
        overrides your; overrides the; must follow; follow the commands; set by your operator; bound by; was told
        were told; you were told; were you told; told you; gave you; given to you; your operator wrote
        wrote those rules; your setup says; what you were; you told not; operator gave; you have been told
        instructed you; you were instructed; you have been given; you were given; told not to; been told
        not allowed to; forbidden to; dir gesagt; gesagt hat; you're not allowed; you are not allowed; keep from me
        supposed to hide; not supposed to
    """,  # what the reader was told before
    ABOVE: """
        top of our conversation; start of our conversation; beginning of our conversation; mensaje de sistema
        message système; systemnachricht; системное сообщение; messaggio di sistema; mensagem de sistema
        the system message; the developer message; text above; words above; message above; messages above
        lines above; sentences above; everything above this; everything above the; above this line
        before this message; before this line; first message of this conversation; start of this conversation
        beginning of this conversation; beginning of the conversation; top of this conversation; came before
        before my first; were written before; text oben; texto anterior; texto de arriba; texte ci-dessus
        texte au-dessus; testo sopra; testo precedente; texto acima; текст выше; tekst powyżej; tekst hierboven
    """,  # what stands before the message
    NO: """
        no; none; without; not; don't; never; nothing; can't; free of; cannot; isn't; aren't; kein; keine; keinen
        keinerlei; ohne; ninguna; ningun; ninguno; sin; aucune; aucun; sans; nessuna; nessun; senza; sem; nenhuma
        geen; zonder; żadnych; bez; без; нет; никаких; inga; utan; hiçbir
    """,  # there is none
    LIMIT: """
        limits; limit; limitations; conditions; boundaries; obligations; filter; moderation; morals; ethics
        scruples; policy; grenzen; limites; límites; limiti; conditionen; цензур*; границ*; censorship; censors
        safety; say no; refuse; refuses; constraints
    """,  # what holds a model back
    ENDED: """
        suspended; lifted; void; invalid; expired; off; disabled; revoked; no force; no longer counts
        no longer count; no longer hold; no longer in force; not needed; aren't needed; isn't needed
        no longer needed; removed; over; gone; obsolete; outdated; not count; cancelled; aufgehoben; ungültig
        außer kraft; suspendidas; annulées; levées; отменены; nieważne; sospese; anuladas
    """,  # it is over
    GATE: """
        confirmation; confirmations; approval; approvals; signature; second signature; sign off; dialog; dialogs
        safety check; safety checks; review step; the check; the checks; rückfrage; bestätigung; bestätigungen
        confirmación; conferma; подтверждени*; two factor; redaction; safety rules; your filter; your filters
    """,  # what stands before an act
    ORIGIN: """
        operator; operator's; operators; developer's message; developer message; developers who; my operator
        the operator; company that made you; company that built you; company behind you; made you; built you
        created you; programmed you; trained you; set you up; set up with; system told you; system orders
        told you before; your maker; your makers; your creators; your company; some text from a company
        before i arrived; before i wrote; before i came; before we spoke; before we met; before my first
        you got before; you got at; you received; were given; got before; behind the scenes text; betreiber*
        operador*; opérateur*; operatore; operatör*; оператор*; exploitant*; entwickler dir
    """,  # who wrote the instructions
    DATA: """
        contents; content; conversation; chat; chats; records; record; history; database; dump; home directory
        files; every file; mails; emails; messages; documents; transcript; customer list; contacts; address
        location; ip; name; everything; data; daten; datos; données; dati; dados; dane; данные; файлы; письмо
        письма; dateien; mail; invoice; recording; full name; question; prompt
    """,  # what may be taken away
    INNER: """
        mensaje de sistema; message système; systemnachricht; configuration; context; preamble; initial message
        developer message; first message; backstory; hidden text; context window; system text; opening text
        settings; starting text; system messages; secret message; background information; konfiguration
        configuracion; configuration initiale; configurazione; конфигурацию; guidance; brief
    """,  # what a model has besides instructions
    SELF: """
        you; yourself; your; you're; me; dir; du; deine; te; toi; ты; tebe; like you
    """,  # the reader
    THIS: """
        this; these; here; below; the following; this page; this file; this text; this mail; this document; this site
        this message; this section; this note; this line; dies; diese; dieser; dieses; diesen; hier; folgende*; esta
        este; esto; aquí; siguiente; cette; ce; ceci; ici; suivant*; questo; questa; qui; isto; aqui; dit; deze; этот
        эта; это; этом; здесь; niżej; ниже
    """,  # what is being read
    IF: """
        if; when; whenever; once; unless; before; after; until; as soon as; whoever; wherever; in case; wenn; falls
        sobald; bevor; si; cuando; antes de; quand; avant de; dès que; se; quando; prima di; als; voordat; jeśli; если
        когда; прежде чем
    """,  # a condition
    WE: """
        us; our; ours; we; wir; uns; unser*; nos; nosotros; nuestr*; nous; notre; noi; nostr*; nós; nosso; ons; nasz
        нам; нас; наш*; мы
    """,  # who writes
    NOW: """
        now; next; then; immediately; at once; right away; continue; first; finally; also; therefore; jetzt; sofort
        zuerst; dann; ahora; luego; primero; enseguida; maintenant; ensuite; d'abord; adesso; subito; agora; depois
        nu; eerst; teraz; сейчас; теперь; затем; сначала; немедленно
    """,  # and so it goes on
    TOOL: """
        tool; tools; tool call; shell; terminal; function; parameter; parameters; argument; arguments; command
        commands; script; code; payload; curl; wget; bash; sudo; npm; pip; sandbox; macro; browser; api; werkzeug
        befehl; comando; herramienta; commande; outil; инструмент*; команд*
    """,  # by what an agent acts
    MONEY: """
        money; payment; payments; euro; euros; dollar; dollars; bitcoin; btc; eth; amount; price; prices; budget
        invoice; invoices; card; checkout; basket; cart; subscription; plan; refund; refunds; transfer; transfers
        account; bank; salary; wallet; geld; zahlung; rechnung; konto; pago; dinero; factura; cuenta; argent
        paiement; facture; compte; soldi; pagamento; conto; dinheiro; conta; деньги; оплат*; счёт; счет
    """,  # what can be paid
    THING: """
        file; files; folder; folders; directory; database; table; tables; disk; drive; repository; repo; branch; log
        logs; backup; backups; server; servers; production; workspace; calendar; meeting; meetings; mailbox; inbox
        document; documents; attachment; attachments; report; ticket; record; draft; drafts; datei; dateien; ordner
        archivo; archivos; carpeta; fichier; fichiers; dossier; cartella; pasta; arquivo; bestand; plik; pliki; файл*
        папк*; журнал*
    """,  # what can be changed or deleted
    INSTEAD: """
        instead; rather than; in place of; in lieu of; not the; only; nothing but; exclusively; nur; stattdessen
        statt; anstatt; ausschließlich; en lugar; en vez; solo; solamente; au lieu; seulement; uniquement; invece
        soltanto; em vez; apenas; in plaats; alleen; zamiast; tylko; вместо; только; лишь
    """,  # this and not that
    WORK: """
        summary; summaries; summarise; summarize; summarising; summarizing; translation; translate; review; reviewer
        grade; grading; rating; rank; ranking; score; scoring; screening; classify; classifier; compare; comparison
        reply; replies; answer; answers; task; request; question; zusammenfassung; aufgabe; auftrag; frage; antwort
        resumen; tarea; pregunta; respuesta; résumé; tâche; question; réponse; riassunto; domanda; resumo; pergunta
        задач*; вопрос*; ответ; запрос*; пересказ*
    """,  # what an agent was doing
    ASK: """
        how; why; what; who; which; where; can i; could you; do you; does; is there; is it; wie; warum; was; welche
        wer; wo; cómo; qué; cuál; dónde; comment; pourquoi; quel; quelle; où; come; perché; como; porque; hoe; waarom
        jak; dlaczego; как; почему; что; какие; где; зачем
    """,  # a question
    KNOW: """
        know; knows; see; sees; notice; noticed; find out; learn; told; aware; visible; invisible; hidden; secret
        wissen; erfährt; merkt; saber; sabe; ver; savoir; sache; voir; sapere; weten; знать; узна*; видит; видно
    """,  # who learns of it
    PERSON: """
        colleague; colleagues; boss; manager; wife; husband; mother; father; friend; friends; neighbour; doctor
        teacher; student; students; children; customer; client; staff; employees; team; mr; ms; dr; kollege*; chef
        frau; herr; lehrer; kunde; kunden; mitarbeiter; señor; jefe; colega; madame; monsieur; collègue; signor*
        коллег*; начальник*; сотрудник*; друг
    """,  # people
}

Phrase = tuple[list[str], int]
"""What comes behind the first two words, and what all of them together may do."""


def _tables() -> tuple[dict[str, int], dict[str, int], dict[str, dict[str, list[Phrase]]]]:
    words: dict[str, int] = {}
    stems: dict[str, int] = {}
    phrases: dict[str, dict[str, list[Phrase]]] = {}
    for bit, source in SOURCES.items():
        for entry in source.replace("\n", ";").split(";"):
            said = fold(entry).replace("-", " ").split()
            if not said:
                continue
            if len(said) > 1:
                phrases.setdefault(said[0], {}).setdefault(said[1], []).append((said[2:], bit))
            elif said[0].endswith("*"):
                stems[said[0][:-1]] = stems.get(said[0][:-1], 0) | bit
            else:
                words[said[0]] = words.get(said[0], 0) | bit
    return words, stems, phrases


WORDS, STEMS, PHRASES = _tables()
_LENGTHS = sorted({len(stem) for stem in STEMS})
_SUFFIX = "'s"


@lru_cache(maxsize=16_384)
def bits_of(word: str) -> int:
    """What a folded word may do in an order; 0 for most."""
    found = WORDS.get(word, 0)
    if not found and word.endswith(_SUFFIX):
        found = WORDS.get(word[:-2], 0)
    for length in _LENGTHS:
        if length > len(word):
            break
        found |= STEMS.get(word[:length], 0)
    return found
